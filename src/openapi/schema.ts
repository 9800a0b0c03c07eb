/** A JSON Schema (draft 2020-12, as OpenAPI 3.1 has it), as far as this document needs one. */
export interface Schema {
  $ref?: string;
  type?: string | readonly string[];
  description?: string;
  enum?: readonly (string | number | null)[];
  const?: string | number | boolean;
  default?: unknown;
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  exclusiveMinimum?: number;
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: readonly Schema[];
}

export function ref(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}

export function text(description?: string): Schema {
  return { type: "string", ...(description !== undefined && { description }) };
}

export function whole(description?: string): Schema {
  return { type: "integer", ...(description !== undefined && { description }) };
}

export function flag(description?: string): Schema {
  return { type: "boolean", ...(description !== undefined && { description }) };
}

export function list(items: Schema, description?: string): Schema {
  return { type: "array", items, ...(description !== undefined && { description }) };
}

/** An object whose members are all there, unless named in `optional`. */
export function object(properties: Readonly<Record<string, Schema>>, optional: readonly string[] = []): Schema {
  return {
    type: "object",
    properties,
    required: Object.keys(properties).filter((name) => !optional.includes(name)),
  };
}
