export type { BackgroundPort } from "./attempt/call.ts";
export { ConfigError, parseConfig, resolveSecrets, type Secrets } from "./config/load.ts";
export type { RouterConfig } from "./config/schema.ts";
export { createRouter, type PrefillRouter, type RouterOptions } from "./create-router.ts";
export { type ErrorCode, Failure, type Stage } from "./errors/failure.ts";
export type { Transport, TransportRequest } from "./legs/transport.ts";
export { MemoryStore } from "./shared/memory-store.ts";
export type { Exchanged, InRecord, OpenStore, OutRecord, SharedStore } from "./shared/store.ts";
export { version } from "./version.ts";
