import { expect } from "bun:test";
import {
  CTX_ID,
  context,
  DONE,
  delta,
  event,
  handedOff,
  json,
  KV_PARAMS,
  prefilled,
  role,
  stream,
  whole,
  words,
} from "../answers.ts";
import type { Scenario } from "../scenario.ts";

/** Text of a chat stream's deltas. */
export function textOf(events: readonly string[]): string {
  return events
    .filter((data) => data !== "[DONE]")
    .map((data) => JSON.parse(data).choices?.[0]?.delta?.content ?? "")
    .join("");
}

/** Good answers of the three engines, on every API: what reaches the client, and what reached the engines. */
export const answers: Scenario[] = [
  {
    name: "sglang streams: both legs leave at once with one room, events pass byte for byte",
    async run({ ask }) {
      const sent = [role(), delta("one "), delta("two"), delta("", "stop"), DONE];
      const { answer, seen } = ask("sg", { "sg-p": prefilled(100), "sg-d": stream(sent) });
      await answer.done();
      expect(answer.status).toBe(200);
      expect(answer.text).toBe(sent.join(""));
      expect(answer.ending).toBe("clean");
      expect(answer.headers.get("x-router-path")).toBe("disaggregated");
      expect(answer.headers.get("content-type")).toStartWith("text/event-stream");
      const [p, d] = [JSON.parse(seen("sg-p")[0]!.body), JSON.parse(seen("sg-d")[0]!.body)];
      expect(p.stream).toBe(false);
      expect(d.stream).toBe(true);
      const rooms = seen().map(({ body }) => /"bootstrap_room":(\d+)/.exec(body)?.[1] ?? "none");
      expect(rooms).toEqual([rooms[0]!, rooms[0]!]);
      expect(rooms[0]).not.toBe("none");
    },
  },
  {
    name: "sglang buffered: decode's answer is the answer, with its length",
    async run({ ask }) {
      const body = whole("hello", "stop");
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": json(body) }, { stream: false });
      await answer.done();
      expect(answer.status).toBe(200);
      expect(answer.text).toBe(body);
      expect(answer.headers.get("content-length")).toBe(String(body.length));
    },
  },
  {
    name: "vllm streams: decode gets prefill's hand-off digit by digit, after prefill",
    async run({ ask }) {
      const { answer, seen } = ask("vl", { "vl-p": handedOff(), "vl-d": words("a", "b") });
      await answer.done();
      expect(textOf(answer.events)).toBe("ab");
      expect(seen("vl-d")[0]!.body).toContain(KV_PARAMS);
      expect(JSON.parse(seen("vl-p")[0]!.body).max_tokens).toBe(1);
      expect(seen("vl-d")[0]!.at).toBeGreaterThanOrEqual(seen("vl-p")[0]!.at);
      expect(seen("vl-p")[0]!.headers.get("x-request-id")).toBe(seen("vl-d")[0]!.headers.get("x-request-id")!);
    },
  },
  {
    name: "vllm buffered",
    async run({ ask }) {
      const body = whole("hi", "stop");
      const { answer } = ask("vl", { "vl-p": handedOff(), "vl-d": json(body) }, { stream: false });
      await answer.done();
      expect([answer.status, answer.text]).toEqual([200, body]);
    },
  },
  {
    name: "trtllm streams: generation gets context's ids beyond 2^53 unrounded",
    async run({ ask }) {
      const { answer, seen } = ask("tr", { "tr-p": context(), "tr-d": words("x") });
      await answer.done();
      expect(textOf(answer.events)).toBe("x");
      expect(seen("tr-d")[0]!.body).toContain(`"ctx_request_id":${CTX_ID}`);
      expect(seen("tr-d")[0]!.body).toContain('"disagg_request_id":1234567890123456789');
      expect(JSON.parse(seen("tr-d")[0]!.body).disaggregated_params.request_type).toBe("generation_only");
    },
  },
  {
    name: "trtllm buffered",
    async run({ ask }) {
      const { answer } = ask("tr", { "tr-p": context(), "tr-d": json(whole("y", "stop")) }, { stream: false });
      await answer.done();
      expect([answer.status, answer.text]).toEqual([200, whole("y", "stop")]);
    },
  },
  {
    name: "trtllm: a context that has finished is the answer, as a proper stream, and generation is not called",
    async run({ ask }) {
      const { answer, seen } = ask("tr", { "tr-p": context("stop") });
      await answer.done();
      expect(answer.status).toBe(200);
      expect(textOf(answer.events)).toBe("A");
      expect(answer.events.at(-1)).toBe("[DONE]");
      expect(answer.headers.get("x-router-path")).toBe("prefill-only");
      expect(answer.text).not.toContain("ctx_request_id");
      expect(seen("tr-d")).toHaveLength(0);
    },
  },
  {
    name: "vllm: a prefill that stopped without a hand-off is the answer",
    async run({ ask }) {
      const { answer, seen } = ask("vl", { "vl-p": json(whole("A", "stop")) }, { stream: false });
      await answer.done();
      expect((answer.json as { choices: { message: { content: string } }[] }).choices[0]!.message.content).toBe("A");
      expect(seen("vl-d")).toHaveLength(0);
    },
  },
  {
    name: "responses: typed events pass, no [DONE] is added",
    async run({ ask }) {
      const sent = [
        event('{"type":"response.created","sequence_number":0,"response":{}}', "response.created"),
        event('{"type":"response.output_text.delta","sequence_number":1,"delta":"hi"}', "response.output_text.delta"),
        event('{"type":"response.completed","sequence_number":2,"response":{}}', "response.completed"),
      ];
      const options = { path: "/v1/responses", prompt: { input: '"$TAG"' } };
      const prefill = json(
        '{"object":"response","status":"incomplete","output":[],"incomplete_details":{"reason":"max_output_tokens"}}',
      );
      const { answer } = ask("sg", { "sg-p": prefill, "sg-d": stream(sent) }, options);
      await answer.done();
      expect(answer.text).toBe(sent.join(""));
    },
  },
  {
    name: "completions: a list of prompts on one worker each, answered in order",
    async run({ ask }) {
      const text = (prompt: string) =>
        JSON.stringify({
          id: "c",
          object: "text_completion",
          model: "m",
          choices: [{ index: 0, text: prompt, finish_reason: "stop" }],
          usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
        });
      const { answer, seen } = ask(
        "vl",
        {
          "vl-p": handedOff(),
          "vl-d": (request) => json(text(/"prompt":(?:\[)?"(\w) /.exec(request.body)?.[1] ?? "?")),
        },
        { stream: false, path: "/v1/completions", prompt: { prompt: '["a $TAG","b $TAG"]' } },
      );
      await answer.done();
      const { choices } = answer.json as { choices: { index: number; text: string }[] };
      expect(choices.map(({ index, text }) => [index, text])).toEqual([
        [0, "a"],
        [1, "b"],
      ]);
      expect(seen("vl-d")).toHaveLength(2);
    },
  },
  {
    name: "/generate goes to the SGLang model that is named",
    async run({ ask }) {
      const sent = [
        event('{"text":"he","meta_info":{"id":"1","finish_reason":null}}'),
        event('{"text":"hello","meta_info":{"id":"1","finish_reason":{"type":"stop"}}}'),
        DONE,
      ];
      const prefill = json(
        '{"text":"h","meta_info":{"id":"1","prompt_tokens":4,"finish_reason":{"type":"length","length":1}}}',
      );
      const options = { path: "/generate", prompt: { text: '"$TAG"' } };
      const { answer } = ask("sg", { "sg-p": prefill, "sg-d": stream(sent) }, options);
      await answer.done();
      expect(answer.text).toBe(sent.join(""));
    },
  },
  {
    name: "embeddings go whole to one aggregated worker",
    async run({ ask }) {
      const body = '{"object":"list","data":[{"index":0,"embedding":[0.1]}]}';
      const options = { stream: false, path: "/v1/embeddings", prompt: { input: '"$TAG"' } };
      const { answer } = ask("agg", { agg: json(body) }, options);
      await answer.done();
      expect([answer.status, answer.text, answer.headers.get("x-router-path")]).toEqual([200, body, "aggregated"]);
    },
  },
  {
    name: "a character that is cut between two reads arrives whole, and so does every other byte",
    async run({ ask }) {
      const whole = new TextEncoder().encode([role(), delta("grüße 🌉"), delta("", "stop"), DONE].join(""));
      const cuts = [0, 150, 151, 153, 155, 158, whole.length];
      const parts = cuts.slice(1).flatMap((cut, i) => [whole.slice(cuts[i]!, cut), 15]);
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": stream(parts) });
      await answer.done();
      expect(answer.text).toBe(new TextDecoder().decode(whole));
    },
  },
];
