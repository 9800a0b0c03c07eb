/** Anything that can write its lines of the Prometheus text format (version 0.0.4). */
export interface Family {
  readonly name: string;
  /** Complete lines with HELP and TYPE, or nothing when there is nothing to say. */
  render(out: string[]): void;
}

/** One label and every value it may ever have. Values that are not known become the last one, so no client's input is ever a label. */
export class Axis {
  readonly label: string;
  readonly values: string[];
  readonly #indexes = new Map<string, number>();
  readonly #room: number;
  readonly #told: boolean;

  /**
   * `values` are the known ones; `fallback` takes all others. `room` lets that many further values in as they are first seen, for
   * labels whose values are literals of the code elsewhere: bounded even if that promise is broken. With `told` they come in by `learn`
   * alone.
   */
  constructor(label: string, values: readonly string[], fallback = "other", room = 0, told = false) {
    this.label = label;
    this.values = [fallback];
    this.#indexes.set(fallback, 0);
    for (const value of values) this.#add(value);
    this.#room = this.values.length + room;
    this.#told = told;
  }

  /** How many values there may be at most. */
  get size(): number {
    return this.#room;
  }

  index(value: string): number {
    const known = this.#indexes.get(value);
    if (known !== undefined) return known;
    return !this.#told && this.values.length < this.#room ? this.#add(value) : 0;
  }

  /** Takes in further values as long as there is room. */
  learn(values: readonly string[]): void {
    for (const value of values) if (this.values.length < this.#room) this.#add(value);
  }

  #add(value: string): number {
    const known = this.#indexes.get(value);
    if (known !== undefined) return known;
    this.#indexes.set(value, this.values.length);
    return this.values.push(value) - 1;
  }
}

/** The label text of one child, by its flat index over all axes (the last axis runs fastest). */
export function labelsOf(axes: readonly Axis[], child: number): string {
  let rest = child;
  let text = "";
  for (let i = axes.length - 1; i >= 0; i--) {
    const axis = axes[i]!;
    const pair = labelPair(axis.label, axis.values[rest % axis.size] ?? "");
    text = text === "" ? pair : `${pair},${text}`;
    rest = Math.floor(rest / axis.size);
  }
  return text;
}

export function childrenOf(axes: readonly Axis[]): number {
  return axes.reduce((product, axis) => product * axis.size, 1);
}

/** Up to this many children a counter shows its zeros too. */
const ZEROS = 64;

/**
 * A counter with all its children in one array: adding is one store into it, whatever the number of labels. Small counters show their
 * children from the start, since `increase()` over a series that appears as 1 is 0, and the first late failure of a process would
 * raise no alert. Of large ones those that were never touched are left out: models × routes × outcomes would print hundreds of zeros.
 */
export class Counter implements Family {
  readonly name: string;
  readonly #help: string;
  readonly #axes: readonly Axis[];
  readonly #values: Float64Array;

  constructor(name: string, help: string, axes: readonly Axis[] = []) {
    this.name = name;
    this.#help = help;
    this.#axes = axes;
    this.#values = new Float64Array(childrenOf(axes));
  }

  /** `child` is the flat index (`0` without labels); `by` must not be negative. */
  add(child: number, by: number): void {
    this.#values[child]! += by;
  }

  render(out: string[]): void {
    head(out, this.name, this.#help, "counter");
    for (let child = 0; child < this.#values.length; child++) {
      const value = this.#values[child]!;
      if (value === 0 && !this.#showsZero(child)) continue;
      out.push(sample(this.name, labelsOf(this.#axes, child), value));
    }
  }

  /** Not for the fallbacks, which nobody expects to see. */
  #showsZero(child: number): boolean {
    if (this.#axes.reduce((product, axis) => product * axis.values.length, 1) > ZEROS) return false;
    let rest = child;
    for (let i = this.#axes.length - 1; i >= 0; i--) {
      const axis = this.#axes[i]!;
      const index = rest % axis.size;
      if (index === 0 || index >= axis.values.length) return false;
      rest = Math.floor(rest / axis.size);
    }
    return true;
  }
}

/**
 * A counter by worker and one fixed axis. Workers come and go (admin routes, discovery), so its children are made by name and are
 * forgotten by `keep` once the worker is gone: a fleet that is replaced every hour leaves nothing behind.
 */
export class WorkerCounter implements Family {
  readonly name: string;
  readonly #help: string;
  readonly #axis: Axis;
  readonly #workers = new Map<string, Float64Array>();

  constructor(name: string, help: string, axis: Axis) {
    this.name = name;
    this.#help = help;
    this.#axis = axis;
  }

  add(worker: string, value: string): void {
    let counts = this.#workers.get(worker);
    if (counts === undefined) {
      counts = new Float64Array(this.#axis.size);
      this.#workers.set(worker, counts);
    }
    counts[this.#axis.index(value)]! += 1;
  }

  keep(workers: ReadonlySet<string>): void {
    for (const worker of this.#workers.keys()) if (!workers.has(worker)) this.#workers.delete(worker);
  }

  render(out: string[]): void {
    head(out, this.name, this.#help, "counter");
    for (const [worker, counts] of this.#workers) {
      for (let i = 0; i < counts.length; i++) {
        if (counts[i] === 0) continue;
        const labels = `${labelPair("worker", worker)},${labelPair(this.#axis.label, this.#axis.values[i] ?? "")}`;
        out.push(sample(this.name, labels, counts[i]!));
      }
    }
  }
}

/** A value that is asked for when somebody looks. The callback hands each sample to `emit`, labels as pairs in a fixed order. */
export class Gauge implements Family {
  readonly name: string;
  readonly #help: string;
  readonly #kind: "gauge" | "counter";
  readonly #read: (emit: EmitSample) => void;

  constructor(name: string, help: string, read: (emit: EmitSample) => void, kind: "gauge" | "counter" = "gauge") {
    this.name = name;
    this.#help = help;
    this.#kind = kind;
    this.#read = read;
  }

  render(out: string[]): void {
    head(out, this.name, this.#help, this.#kind);
    const emit: EmitSample = (value, labels = []) => {
      out.push(sample(this.name, labels.map(([label, text]) => labelPair(label, text)).join(","), value));
    };
    this.#read(emit);
  }
}

export type EmitSample = (value: number, labels?: readonly (readonly [string, string])[]) => void;

/** The families in the order they were added; text is made only when somebody asks. */
export class Registry {
  readonly #families: Family[] = [];

  add<F extends Family>(family: F): F {
    if (this.#families.some((other) => other.name === family.name))
      throw new Error(`Metric "${family.name}" exists already`);
    this.#families.push(family);
    return family;
  }

  names(): string[] {
    return this.#families.map((family) => family.name);
  }

  render(): string {
    const out: string[] = [];
    for (const family of this.#families) family.render(out);
    return out.join("");
  }
}

export function head(out: string[], name: string, help: string, type: "counter" | "gauge" | "histogram"): void {
  out.push(`# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${name} ${type}\n`);
}

export function sample(name: string, labels: string, value: number): string {
  return labels === "" ? `${name} ${number(value)}\n` : `${name}{${labels}} ${number(value)}\n`;
}

export function labelPair(label: string, value: string): string {
  return `${label}="${escapeLabel(value)}"`;
}

/** Prometheus text format: backslash, double quote and line feed are escaped in label values, nothing else. */
export function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

/** JavaScript's `Infinity` and `NaN` as the format spells them. */
function number(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  return String(value);
}
