/** The parts of a valibot schema that lead to further keys. */
interface SchemaNode {
  entries?: Record<string, unknown>;
  item?: unknown;
  wrapped?: unknown;
  pipe?: readonly unknown[];
  getter?: (input: unknown) => unknown;
}

/** The keys of the section at `path` (as valibot gives it), read off the schema; empty where there is no such section. */
export function keysAt(schema: unknown, path: readonly unknown[]): string[] {
  let node: unknown = unwrap(schema);
  for (const key of path) {
    const { entries, item } = (node ?? {}) as SchemaNode;
    node = unwrap(typeof key === "number" ? item : entries?.[String(key)]);
  }
  return Object.keys((node as SchemaNode | undefined)?.entries ?? {});
}

function unwrap(schema: unknown): unknown {
  let node = schema;
  for (;;) {
    const { wrapped, pipe, entries, getter } = (node ?? {}) as SchemaNode;
    if (entries !== undefined) return node;
    if (wrapped !== undefined) node = wrapped;
    // A worker is a text or an object; only the object has keys.
    else if (getter !== undefined) node = getter({});
    else if (pipe !== undefined && pipe[0] !== node) node = pipe[0];
    else return node;
  }
}
