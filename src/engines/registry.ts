import type { Connector, Dialect, EngineName } from "./dialect.ts";
import { openai } from "./openai.ts";
import { sglang } from "./sglang.ts";
import { trtllm } from "./trtllm.ts";
import { vllmMooncake } from "./vllm-mooncake.ts";
import { vllmNixl } from "./vllm-nixl.ts";
import { vllmPush } from "./vllm-push.ts";

/** The dialect of a pool. `connector` counts for vllm only, whose default is nixl (contract section 2). */
export function dialectFor(engine: EngineName, connector?: Connector): Dialect {
  switch (engine) {
    case "sglang":
      return sglang;
    case "vllm":
      return connector === "mooncake" ? vllmMooncake : connector === "nixl-push" ? vllmPush : vllmNixl;
    case "trtllm":
      return trtllm;
    case "openai":
      return openai;
  }
}
