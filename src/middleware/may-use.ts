import type { ClientKey } from "../config/secrets.ts";

/**
 * Whether a key's model list lets it use a model under a name (contract section 2, `auth.clientKeys`). A model's id opens all its
 * names, an alias or adapter only itself. No key, or one without a list: everything.
 */
export function mayUse(key: ClientKey | undefined, modelId: string, name: string): boolean {
  return key?.models === undefined || key.models.includes(modelId) || key.models.includes(name);
}
