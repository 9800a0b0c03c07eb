/** The Worker of wrangler.toml. Nothing but the handler: the platform takes every named export of this module for an entry point. */
export { default } from "./workers.ts";
