import type { Output } from "./output.ts";

/** What every command gets beside its own arguments. */
export interface CommandContext {
  env: Readonly<Record<string, string | undefined>>;
  output: Output;
}
