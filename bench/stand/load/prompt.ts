import { MODEL } from "../engine/replies.ts";
import { type LoadPlan, markOf } from "../protocol.ts";

const DOCUMENTS = 16;

function text(bytes: number, seed: number): string {
  let made = "";
  for (let word = seed; made.length < bytes; word++)
    made += `word${(word * 7919) % 10007}${word % 12 === 0 ? "\\n" : " "}`;
  return made.slice(0, bytes).replace(/\\$/, ".");
}

export interface PreparedRequest {
  bytes: Buffer;
  /** Where the mark is written before each sending. */
  markAt: number;
}

/**
 * A client's request, but for its mark. Half of the prompt is common to all requests of one of 16 documents, the rest follows
 * a mark that is new each time, as prefix caches see it in practice.
 */
export function prepareRequest(plan: LoadPlan, client: number): PreparedRequest {
  const half = Math.floor(plan.promptBytes / 2);
  const document = text(half, (client % DOCUMENTS) * 1000);
  const mark = markOf("p", 0);
  const body = `{"model":"${MODEL}","messages":[{"role":"system","content":"${document}"},{"role":"user","content":"${mark} ${text(plan.promptBytes - half, client)}"}],"max_tokens":${plan.maxTokens},"temperature":0.7,"stream":${plan.stream}}`;
  const head = [
    "POST /v1/chat/completions HTTP/1.1",
    `Host: ${plan.host}:${plan.port}`,
    "Content-Type: application/json",
    "Accept: */*",
    "User-Agent: bench",
    "Authorization: Bearer sk-bench",
    ...(plan.headers === undefined ? [] : [plan.headers]),
    ...(plan.close === true ? ["Connection: close"] : []),
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  const bytes = Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
  return { bytes, markAt: bytes.indexOf(mark) };
}
