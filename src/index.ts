export { type PrefillRouter, type RouterOptions, createRouter } from "./create-router.ts";
export type { RouterConfig } from "./config/schema.ts";
export { ConfigError, parseConfig, resolveSecrets, type Secrets } from "./config/load.ts";
export type { BackgroundPort } from "./attempt/call.ts";
export type { Transport, TransportRequest } from "./legs/transport.ts";
export { type ErrorCode, Failure, type Stage } from "./errors/failure.ts";
export { version } from "./version.ts";
