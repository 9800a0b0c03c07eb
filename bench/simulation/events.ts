/** What is to happen when: a binary heap, the earliest first, and those of the same moment in the order in which they were put in. */
export class Agenda {
  readonly #heap: { at: number; order: number; run: () => void }[] = [];
  #order = 0;
  now = 0;

  at(time: number, run: () => void): void {
    const heap = this.#heap;
    const entry = { at: Math.max(time, this.now), order: this.#order++, run };
    let index = heap.push(entry) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!before(entry, heap[parent]!)) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = entry;
  }

  /** Runs everything up to then. */
  runUntil(end: number): void {
    for (let next = this.#take(end); next !== undefined; next = this.#take(end)) {
      this.now = next.at;
      next.run();
    }
    this.now = end;
  }

  #take(end: number): { at: number; run: () => void } | undefined {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined || first.at > end) return undefined;
    const last = heap.pop()!;
    if (heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child += 1;
      if (!before(heap[child]!, last)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function before(a: { at: number; order: number }, b: { at: number; order: number }): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
