/** The Worker of wrangler.toml: the handler, and the class of its Durable Objects. The platform takes every named export of this module for an entry point. */
export { PoolState } from "./pool-state-object.ts";
export { default } from "./workers.ts";
