import { jsonScript, type Script, type Step } from "../../src/simulator/script.ts";

/** What engines answer, as scripts: enough of each dialect for a split, every failure by hand. */

const USAGE = { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 };

export function whole(content: string, finish: string, more: Record<string, unknown> = {}): string {
  const choice = { index: 0, message: { role: "assistant", content }, finish_reason: finish };
  return JSON.stringify({
    id: "cmpl-1",
    object: "chat.completion",
    model: "m",
    choices: [choice],
    usage: USAGE,
    ...more,
  });
}

export function delta(content: string, finish: string | null = null): string {
  const choice = { index: 0, delta: content === "" ? {} : { content }, finish_reason: finish };
  return event(JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "m", choices: [choice] }));
}

export function role(): string {
  const choice = { index: 0, delta: { role: "assistant", content: "" }, finish_reason: null };
  return event(JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "m", choices: [choice] }));
}

export function event(data: string, name?: string): string {
  return `${name === undefined ? "" : `event: ${name}\n`}data: ${data}\n\n`;
}

export const DONE = event("[DONE]");

/** A write; a pause before the next; something to wait for before the next, so that order need not be left to time. */
export type Part = string | Uint8Array | number | (() => Promise<unknown>);

/** A stream of the given writes. */
export function stream(parts: readonly Part[], ending: Script["ending"] = "clean"): Script {
  return { status: 200, headers: [["content-type", "text/event-stream; charset=utf-8"]], steps: steps(parts), ending };
}

function steps(parts: readonly Part[]): Step[] {
  const made: Step[] = [];
  let delayMs = 0;
  for (const part of parts) {
    if (typeof part === "number") delayMs += part;
    else if (typeof part === "function") made.push({ bytes: "", wait: part });
    else {
      made.push({ bytes: part, delayMs });
      delayMs = 0;
    }
  }
  // A pause at the end holds back the ending.
  if (delayMs > 0) made.push({ bytes: "", delayMs });
  return made;
}

/** "one two three", word by word, well ended. */
export function words(...said: (string | number)[]): Script {
  return stream([
    role(),
    ...said.map((word) => (typeof word === "number" ? word : delta(word))),
    delta("", "stop"),
    DONE,
  ]);
}

export function json(text: string, delayMs = 0): Script {
  return { ...jsonScript(200, text), headDelayMs: delayMs };
}

export function failing(status: number, message: string, headers: Script["headers"] = [], delayMs = 0): Script {
  const text = JSON.stringify({ error: { message, type: "engine_error", param: null, code: status } });
  return { ...jsonScript(status, text, headers), headDelayMs: delayMs };
}

/** SGLang's prefill is done: one token, after the transfer. */
export function prefilled(delayMs = 0): Script {
  return json(whole("A", "length"), delayMs);
}

export const KV_PARAMS =
  '{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2,3]],"remote_engine_id":"e-1","remote_request_id":"r-1","remote_host":"127.0.0.1","remote_port":5701,"big":9007199254740993}';

/** vLLM's prefill with a hand-off, given as text so that its digits are the engine's own. */
export function handedOff(delayMs = 0, params = KV_PARAMS): Script {
  return json(`${whole("A", "length").slice(0, -1)},"kv_transfer_params":${params}}`, delayMs);
}

export const CTX_ID = "9007199254740993";

/** TensorRT-LLM's context answer. */
export function context(finish = "length", delayMs = 0): Script {
  const params = `{"request_type":"context_only","ctx_request_id":${CTX_ID},"disagg_request_id":1234567890123456789,"first_gen_tokens":[7]}`;
  const choice = `{"index":0,"message":{"role":"assistant","content":"A"},"finish_reason":"${finish}","disaggregated_params":${params}}`;
  const usage = JSON.stringify(USAGE);
  return json(
    `{"id":"c","object":"chat.completion","model":"m","choices":[${choice}],"usage":${usage},"prompt_token_ids":[1,2]}`,
    delayMs,
  );
}
