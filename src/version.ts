/** The package's version; a test compares it with package.json and deno.json, since a Worker cannot read either. */
export const version = "0.1.0";
