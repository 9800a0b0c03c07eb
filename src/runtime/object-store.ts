import * as v from "valibot";
import type { Exchanged, OutRecord, SharedStore } from "../shared/store.ts";

/** A binding of a Durable Object class. */
export interface ObjectNamespace {
  idFromName(name: string): unknown;
  get(id: unknown): { fetch(url: string, init: RequestInit): Promise<Response> };
}

const exchanged = v.object({
  epoch: v.number(),
  cursor: v.pipe(v.number(), v.finite()),
  records: v.array(v.object({ key: v.string(), text: v.string(), ageMs: v.number() })),
});

/** The shared store on Workers: one `PoolState` object per pool. Each request asks through a stub of its own. */
export class ObjectStore implements SharedStore {
  readonly #objects: ObjectNamespace;

  constructor(objects: ObjectNamespace) {
    this.#objects = objects;
  }

  async exchange(topic: string, write: readonly OutRecord[], since: number): Promise<Exchanged> {
    const stub = this.#objects.get(this.#objects.idFromName(topic));
    const response = await stub.fetch("https://pool-state/exchange", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ write, since }),
    });
    if (!response.ok) throw new Error(`The pool's object answered ${response.status}`);
    return v.parse(exchanged, await response.json());
  }
}

/** Undefined for anything that is no such binding. */
export function objectNamespace(binding: unknown): ObjectNamespace | undefined {
  const { idFromName, get } = (binding ?? {}) as Partial<ObjectNamespace>;
  return typeof idFromName === "function" && typeof get === "function" ? (binding as ObjectNamespace) : undefined;
}
