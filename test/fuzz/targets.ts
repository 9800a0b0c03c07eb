import { configTarget } from "./config-target.ts";
import { headersTarget } from "./headers-target.ts";
import { jsonTarget } from "./json-target.ts";
import { relayTarget } from "./relay-target.ts";
import { sseTarget } from "./sse-target.ts";
import type { Target } from "./target.ts";

export const targets: readonly Target[] = [jsonTarget, sseTarget, relayTarget, configTarget, headersTarget];
