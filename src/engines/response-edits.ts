import { findMember, readString } from "../json/member.ts";
import { Patch } from "../json/patch.ts";
import { type JsonObject, scanArrayAt, scanObject } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import { jsonString } from "../json/text.ts";
import type { PromptTokensDetails } from "../prefill/output.ts";
import type { PrefillTail } from "../prefill/task.ts";
import type { Api, EventMeaning } from "../sse/api.ts";
import { choicesOf, objectIn, scanAnswer } from "./answer.ts";
import { asksEchoedPrompt } from "./asks.ts";
import type { GenerationRequest } from "./dialect.ts";
import type { EchoedPrompt, InputLogprobs } from "./input-logprobs.ts";
import { NOTHING_CACHED, namesCachedTokens, setPromptUsage } from "./prompt-usage.ts";
import { vllmHandoffMembers } from "./terminal-answer.ts";

/** In a stream the typed APIs have the answer's own members one level down; the others at the top of each event. */
const EVENT_ANSWER: Readonly<Record<Api, string | undefined>> = {
  chat: undefined,
  completions: undefined,
  generate: undefined,
  responses: "response",
  messages: "message",
};

const OPEN_BRACKET = 0x5b;
const MODEL = '"model"';

/**
 * A buffered answer as the client asked for it: its own name for the model, prefill's numbers about the prompt, prefill's logprobs of
 * the prompt. All else stays byte for byte.
 */
export function editAnswer(request: GenerationRequest, text: string, tail: PrefillTail | undefined): string {
  const logprobs = inputLogprobsIn(request, tail);
  const counted = countsPrompt(request.api, text, tail?.promptTokensDetails);
  // The bare search first: it is a tenth of the expression's price.
  const leaks = text.includes("_transfer_params") && HANDOFF.test(text);
  if (request.engineModel === undefined && logprobs === undefined && !counted && !leaks) return text;
  const whole = scanAnswer(text);
  if (whole === undefined) return text;
  const answer = leaks ? scanObject(splice(whole, { drop: vllmHandoffMembers.answer })) : whole;
  const patch = new Patch(answer.text);
  if (request.engineModel !== undefined && findMember(answer, "model") !== undefined) {
    patch.set(answer, "model", jsonString(request.model));
  }
  setPromptUsage(patch, request.api, answer, tail?.promptTokensDetails, true);
  if (logprobs !== undefined) {
    const place = placeOf(request.api, answer);
    if (place !== undefined) {
      for (const { key, raw } of logprobs.members) patch.set(place, key, raw);
      if (logprobs.echo !== undefined) putEcho(patch, place, logprobs.echo);
    }
  }
  return patch.apply();
}

/** Decode's own hand-off, which vLLM fills in where blocks may travel both ways: addresses of engines, and nobody's business. */
const HANDOFF = /"(?:kv|ec)_transfer_params"\s*:\s*\{/;

/** Whether an answer's usage may have to be corrected. */
function countsPrompt(api: Api, text: string, told: PromptTokensDetails | undefined): boolean {
  return told !== undefined && (told !== NOTHING_CACHED || namesCachedTokens(api, text));
}

/** Which events of decode's stream a request needs changed, and how (`EventEditor`, relay). One per stream. */
export function eventEdits(request: GenerationRequest): EventEdits {
  return new EventEdits(request);
}

class EventEdits {
  readonly everyEvent: boolean;
  readonly needsTail: boolean;
  readonly #request: GenerationRequest;
  readonly #api: Api;
  readonly #model: string | undefined;
  readonly #echoes: boolean;
  #echoed = false;
  // What the events of one chat stream begin with, up to the end of their model's name, and the same with the client's name.
  #before = "";
  #after = "";

  constructor(request: GenerationRequest) {
    this.#request = request;
    this.#api = request.api;
    this.#model = request.engineModel === undefined ? undefined : jsonString(request.model);
    this.#echoes = request.wantsInputLogprobs && asksEchoedPrompt(request);
    const generates = request.wantsInputLogprobs && request.api === "generate";
    // `prompt_logprobs` have no place in a stream: vLLM takes 0 of them and shows none.
    this.needsTail = this.#echoes || generates;
    this.everyEvent = this.#model !== undefined || this.needsTail;
  }

  edit(data: string, meaning: EventMeaning, tail: PrefillTail | undefined): string | undefined {
    if (data === "[DONE]") return undefined;
    const logprobs = this.needsTail && meaning.answers ? inputLogprobsIn(this.#request, tail) : undefined;
    // Usage that runs along with an answer is decode's own business; the answer's usage comes behind it, or at its end.
    const counted = meaning.usage && (meaning.finishes || (!meaning.answers && this.#api !== "messages"));
    const details = counted ? tail?.promptTokensDetails : undefined;
    if (logprobs === undefined && details === undefined) return this.#named(data);
    const event = scanAnswer(data);
    if (event === undefined) return undefined;
    const patch = new Patch(data);
    this.#setModel(patch, event);
    if (details !== undefined) {
      setPromptUsage(patch, this.#api, this.#usageHolder(event), details, this.#isWholeUsage(event, meaning));
    }
    if (logprobs !== undefined) this.#putLogprobs(patch, event, logprobs);
    return patch.apply();
  }

  /** Only the name of the model. Events that have none are not scanned, nor those that begin like the one before. */
  #named(data: string): string | undefined {
    if (this.#model === undefined) return undefined;
    if (this.#before !== "" && data.startsWith(this.#before) && !data.includes(MODEL, this.#before.length)) {
      return this.#after + data.slice(this.#before.length);
    }
    if (!data.includes(MODEL)) return undefined;
    const event = scanAnswer(data);
    if (event === undefined) return undefined;
    const patch = new Patch(data);
    this.#setModel(patch, event);
    return patch.apply();
  }

  #setModel(patch: Patch, event: JsonObject): void {
    if (this.#model === undefined) return;
    const holder = EVENT_ANSWER[this.#api];
    const answer = holder === undefined ? event : objectIn(event, holder);
    const member = answer === undefined ? undefined : findMember(answer, "model");
    if (member === undefined) return;
    patch.replace(member.valueStart, member.valueEnd, this.#model);
    // Not the name alone: these characters lie in the same place of the same members, so what follows them is the model's end.
    if (holder !== undefined || event.text.charCodeAt(member.valueEnd) !== 0x2c) return;
    this.#before = event.text.slice(0, member.valueEnd + 1);
    this.#after = `${event.text.slice(0, member.valueStart)}${this.#model},`;
  }

  /** `message_delta` has its usage at the top, `message_start` in its message; responses always in the response. */
  #usageHolder(event: JsonObject): JsonObject {
    const holder = EVENT_ANSWER[this.#api];
    return (holder === undefined ? undefined : objectIn(event, holder)) ?? event;
  }

  /** The usage of the whole answer, and not of a part: an event without choices, for the other APIs the finish event. */
  #isWholeUsage(event: JsonObject, meaning: EventMeaning): boolean {
    if (this.#api !== "chat" && this.#api !== "completions") return meaning.finishes;
    return choicesOf(event).length === 0;
  }

  #putLogprobs(patch: Patch, event: JsonObject, { members, echo }: InputLogprobs): void {
    const place = placeOf(this.#api, event);
    if (place === undefined) return;
    // SGLang repeats the prompt's lists in every event, whether its text is cumulative or not.
    if (this.#api === "generate") for (const { key, raw } of members) patch.set(place, key, raw);
    if (echo === undefined) return;
    if (this.#echoed) shiftOffsets(patch, place, echo.shift);
    else putEcho(patch, place, echo);
    this.#echoed = true;
  }
}

function inputLogprobsIn(request: GenerationRequest, tail: PrefillTail | undefined): InputLogprobs | undefined {
  return request.wantsInputLogprobs ? (tail?.inputLogprobs as InputLogprobs | undefined) : undefined;
}

/** The object that holds the prompt's logprobs. A request for several has become several requests. */
function placeOf(api: Api, answer: JsonObject): JsonObject | undefined {
  if (api === "generate") return objectIn(answer, "meta_info");
  return api === "completions" ? choicesOf(answer)[0] : answer;
}

/** The prompt in front of a choice: of its text, where decode has not echoed it, and of each list of its logprobs. */
function putEcho(patch: Patch, choice: JsonObject, { text, lists, shift }: EchoedPrompt): void {
  const own = readString(choice, "text");
  if (text !== undefined && own !== undefined) patch.set(choice, "text", jsonString(text + own));
  const logprobs = objectIn(choice, "logprobs");
  if (logprobs === undefined) return;
  for (const { key, valueStart, valueEnd } of logprobs.members) {
    const prompt = lists.get(key);
    if (prompt === undefined || choice.text.charCodeAt(valueStart) !== OPEN_BRACKET) continue;
    const elements = scanArrayAt(choice.text, valueStart);
    const rest =
      key === "text_offset" && shift > 0 ? shifted(choice.text.slice(valueStart, valueEnd), shift) : undefined;
    if (rest !== undefined)
      patch.replace(valueStart, valueEnd, elements.length > 0 ? `[${prompt},${rest}]` : `[${prompt}]`);
    else patch.replace(valueStart + 1, valueStart + 1, elements.length > 0 ? `${prompt},` : prompt);
  }
}

/** The offsets of later events go on from the prompt too. */
function shiftOffsets(patch: Patch, choice: JsonObject, shift: number): void {
  const logprobs = shift > 0 ? objectIn(choice, "logprobs") : undefined;
  const offsets = logprobs === undefined ? undefined : findMember(logprobs, "text_offset");
  if (offsets === undefined || choice.text.charCodeAt(offsets.valueStart) !== OPEN_BRACKET) return;
  const { valueStart, valueEnd } = offsets;
  patch.replace(valueStart, valueEnd, `[${shifted(choice.text.slice(valueStart, valueEnd), shift)}]`);
}

function shifted(list: string, shift: number): string {
  const offsets = JSON.parse(list) as unknown[];
  return offsets.map((offset) => (typeof offset === "number" ? offset + shift : JSON.stringify(offset))).join(",");
}
