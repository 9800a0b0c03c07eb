import type { Failure } from "../errors/failure.ts";
import { rawValue } from "../json/member.ts";
import type { Pieces } from "../json/pieces.ts";
import type { JsonObject } from "../json/scan.ts";
import { splicePieces } from "../json/splice.ts";
import { jsonString } from "../json/text.ts";
import type { EngineOutput, PrefillOutput, RawJson } from "../prefill/output.ts";
import { bootstrapRoom, bootstrapRooms, roomsText, roomText } from "../prefill/room.ts";
import type { Api } from "../sse/api.ts";
import type { Dialect, EngineAnswer, GenerationRequest, LegRequest, LegTarget, SplitPlan } from "./dialect.ts";
import { sglangInputLogprobs } from "./input-logprobs.ts";
import { judgeTail } from "./judge-tail.ts";
import { engineModelOf } from "./model.ts";
import { ownedAnd, ownedMembers } from "./owned.ts";
import { NOTHING_CACHED } from "./prompt-usage.ts";
import { refuseForAll } from "./refuse.ts";
import { countPrompts } from "./sequences.ts";
import { noHandoffMembers } from "./terminal-answer.ts";
import { terminalsWithout } from "./terminals.ts";

const prefillDrops = ownedAnd("stream_options");
const splits: ReadonlySet<Api> = new Set(["chat", "completions", "responses", "messages", "generate"]);

/** The three members that pair the legs, as JSON text. */
interface Bootstrap {
  bootstrap_host: string;
  bootstrap_port: string;
  bootstrap_room: string;
}

/**
 * SGLang: both legs at once, paired by a room. Each leg is the client's body plus the room's three members; prefill makes one
 * token by itself and is asked for it unstreamed, so that nearly every failure of it is a real HTTP status.
 */
export const sglang: Dialect = {
  engine: "sglang",
  concurrent: true,
  splits,
  needsIntroduction,
  refuse,
  plan: planSglang,
  ...terminalsWithout(noHandoffMembers),
};

/** A room at the wrong port is a request that fails: after a cold start it is asked first, where nobody has configured one. */
function needsIntroduction({ guessed }: LegTarget): boolean {
  return guessed === true;
}

function planSglang(request: GenerationRequest, prefill: LegTarget): SplitPlan {
  return new SglangPlan(request, prefill);
}

function refuse(request: GenerationRequest): Failure | undefined {
  return refuseForAll(request, splits);
}

const UNSAID: EngineOutput = { completionUsage: { promptTokensDetails: NOTHING_CACHED } };

class SglangPlan implements SplitPlan {
  readonly prefill: LegRequest;
  readonly early: EngineOutput;
  readonly #request: GenerationRequest;
  readonly #bootstrap: Bootstrap;
  /** Decode's body where it is prefill's too. */
  #same: Pieces | undefined;

  constructor(request: GenerationRequest, target: LegTarget) {
    const { bootstrap, params } = bootstrapFor(request, target);
    this.#request = request;
    this.#bootstrap = bootstrap;
    this.early = { disaggregatedParams: params };
    // Then both legs are sent the same text, made once.
    if (isUnstreamed(request.doc)) this.#same = this.#decodeBody();
    this.prefill = { path: request.path, body: this.#same ?? this.#prefillBody() };
  }

  judge(answer: EngineAnswer): PrefillOutput {
    const { api, wantsInputLogprobs } = this.#request;
    return judgeTail(api, answer, wantsInputLogprobs ? readLogprobs : undefined, UNSAID);

    function readLogprobs(doc: JsonObject): unknown {
      return sglangInputLogprobs(api, doc);
    }
  }

  decode(): LegRequest {
    const body = this.#same ?? this.#decodeBody();
    // The plan outlives the leg, and a prompt must not stay in memory for as long as its answer takes.
    this.#same = undefined;
    return { path: this.#request.path, body };
  }

  #prefillBody(): Pieces {
    const request = this.#request;
    return splicePieces(request.doc, {
      drop: prefillDrops,
      set: { model: engineModelOf(request), stream: "false", ...this.#bootstrap },
    });
  }

  #decodeBody(): Pieces {
    const request = this.#request;
    return splicePieces(request.doc, {
      drop: ownedMembers,
      set: { model: engineModelOf(request), ...this.#bootstrap },
    });
  }
}

/** The client's own words are those that prefill is to be sent: `"stream": false`, once, and no `stream_options`. */
function isUnstreamed(doc: JsonObject): boolean {
  let said = 0;
  for (const { key } of doc.members) {
    if (key === "stream_options") return false;
    if (key === "stream") said++;
  }
  return said === 1 && rawValue(doc, "stream") === "false";
}

/** One room for one prompt; for a batch lists of equal length with a room of its own for each (wire: SGLang, batches). */
function bootstrapFor(request: GenerationRequest, target: LegTarget): { bootstrap: Bootstrap; params: RawJson } {
  const { bootstrapHost, bootstrapPort, dpSize } = target;
  const { count } = countPrompts(request.api, request.doc);
  const host = jsonString(bootstrapHost);
  if (count > 1) {
    const rooms = bootstrapRooms(count, dpSize);
    const bootstrap = {
      bootstrap_host: `[${new Array(count).fill(host).join(",")}]`,
      bootstrap_port: `[${new Array(count).fill(bootstrapPort).join(",")}]`,
      bootstrap_room: roomsText(rooms),
    };
    const value = {
      bootstrap_host: rooms.map(() => bootstrapHost),
      bootstrap_port: rooms.map(() => bootstrapPort),
      bootstrap_room: rooms,
    };
    return { bootstrap, params: { value, text: paramsText(bootstrap) } };
  }
  const room = bootstrapRoom(dpSize);
  const bootstrap = { bootstrap_host: host, bootstrap_port: String(bootstrapPort), bootstrap_room: roomText(room) };
  // The room stays a bigint here: most of them are no exact number.
  const value = { bootstrap_host: bootstrapHost, bootstrap_port: bootstrapPort, bootstrap_room: room };
  return { bootstrap, params: { value, text: paramsText(bootstrap) } };
}

function paramsText({ bootstrap_host, bootstrap_port, bootstrap_room }: Bootstrap): string {
  return `{"bootstrap_host":${bootstrap_host},"bootstrap_port":${bootstrap_port},"bootstrap_room":${bootstrap_room}}`;
}
