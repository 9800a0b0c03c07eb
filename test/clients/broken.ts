import type { Api } from "../../src/sse/api.ts";
import type { Wire } from "../faults/engine.ts";
import { abortEvent, answerEvents, errorEvent } from "../faults/streams.ts";

/** How an engine breaks a stream, as the wire facts list it, and what a program must learn of it. */
export interface Broken {
  what: string;
  apis: readonly Api[];
  /** After two pieces of the answer, unless it has to do it all by itself. */
  play(wire: Wire, api: Api): Promise<void>;
  whole?: boolean;
  /** `raises`: the program must not take it for a success. `well`: it must get the whole answer and no error. */
  ends: "raises" | "well";
  /** Words of the engine's that have to be in what is raised. */
  says?: string;
  /** What each chat library does with it when no router stands between (undefined: not looked at). */
  bare?: { openAi?: "raises" | "silent"; aiSdk?: "raises" | "silent" };
  /** Prefill answers so, at that moment of decode's stream. */
  prefill?(wire: Wire): Promise<void>;
}

const CHOICES: readonly Api[] = ["chat", "completions"];
const CHAT: readonly Api[] = ["chat"];
const ALL: readonly Api[] = ["chat", "completions", "responses", "messages"];
export const FIRE = "the engine is on fire";
const FLAT = `{"object":"error","message":"${FIRE}","type":"InternalServerError","param":null,"code":500}`;
const NESTED = `{"error":{"message":"${FIRE}","type":"server_error","param":null,"code":500}}`;
const DONE = "data: [DONE]\n\n";

/** A chunk as the API has it, with other members put in. */
function chunkWith(api: Api, members: string): string {
  const { bytes } = answerEvents(api).find(({ role }) => role === "answer")!;
  return bytes.toString().replace(/}\n\n$/, `,${members}}\n\n`);
}

function finishWith(api: Api, reason: string): string {
  const { bytes } = answerEvents(api).find(({ role }) => role === "finish")!;
  return bytes.toString().replace('"finish_reason":"stop"', `"finish_reason":${reason}`);
}

/** The events from that of a role on, or all but those of some roles. */
function rest(api: Api, leftOut: readonly string[] = []): Buffer {
  const events = answerEvents(api);
  const third = events.findIndex(({ role }) => role === "answer") + (api === "responses" ? 3 : 2);
  return Buffer.concat(
    events
      .slice(third)
      .filter(({ role }) => !leftOut.includes(role))
      .map(({ bytes }) => bytes),
  );
}

/** Each piece in a write of its own; then the body's proper end. */
function saying(...pieces: ((api: Api) => string | Buffer)[]): Broken["play"] {
  return async function say(wire, api) {
    for (const piece of pieces) await wire.chunk(piece(api));
    await wire.end();
  };
}

const done = (): string => DONE;

export const BROKEN: readonly Broken[] = [
  {
    what: "nested error frame, then [DONE]",
    apis: CHOICES,
    play: saying(() => `data: ${NESTED}\n\n`, done),
    ends: "raises",
    says: FIRE,
    bare: { openAi: "raises", aiSdk: "raises" },
  },
  {
    what: "the API's own error event",
    apis: ["messages"],
    play: saying(errorEvent),
    ends: "raises",
    says: FIRE,
  },
  {
    what: "event: error with a flat object",
    apis: ALL,
    play: saying(() => `event: error\ndata: ${FLAT}\n\n`),
    ends: "raises",
    says: FIRE,
    bare: { openAi: "raises", aiSdk: "raises" },
  },
  {
    what: "event: error with the flat object of the responses API",
    apis: ["responses"],
    play: saying(
      () =>
        `event: error\ndata: {"type":"error","code":"server_error","message":"${FIRE}","param":null,"sequence_number":6}\n\n`,
    ),
    ends: "raises",
    says: FIRE,
  },
  {
    what: "event: error with bare text",
    apis: ALL,
    play: saying(() => `event: error\ndata: ${FIRE}\n\n`),
    ends: "raises",
    says: FIRE,
  },
  {
    what: "the old flat object without a name, then [DONE]",
    apis: CHOICES,
    play: saying(() => `data: ${FLAT}\n\n`, done),
    ends: "raises",
    says: FIRE,
    bare: { openAi: "silent", aiSdk: "raises" },
  },
  {
    what: "choices and an error in one chunk",
    apis: CHOICES,
    play: saying((api) => chunkWith(api, NESTED.slice(1, -1)), done),
    ends: "raises",
    says: FIRE,
    bare: { openAi: "raises", aiSdk: "raises" },
  },
  {
    what: 'finish_reason "error"',
    apis: CHOICES,
    play: saying((api) => finishWith(api, '"error"'), done),
    ends: "raises",
    bare: { openAi: "silent", aiSdk: "silent" },
  },
  {
    what: 'finish_reason "abort"',
    apis: CHOICES,
    play: saying((api) => finishWith(api, '"abort"'), done),
    ends: "raises",
    bare: { openAi: "silent", aiSdk: "silent" },
  },
  {
    what: "finish_reason as SGLang's abort object",
    apis: CHOICES,
    play: saying((api) => finishWith(api, `{"type":"abort","message":"${FIRE}","status_code":500}`), done),
    ends: "raises",
    says: FIRE,
    bare: { openAi: "silent" },
  },
  {
    what: "an abort in the API's own words",
    apis: ["responses", "messages"],
    play: saying(abortEvent),
    ends: "raises",
  },
  {
    what: "clean end in the middle, without finish and [DONE]",
    apis: ALL,
    play: saying(),
    ends: "raises",
    bare: { openAi: "silent", aiSdk: "raises" },
  },
  {
    what: "connection closed in the middle, by an answer without length and chunks",
    apis: ALL,
    whole: true,
    async play(wire, api) {
      await wire.head(200, "text/event-stream", "connection: close\r\n");
      const events = answerEvents(api);
      await wire.raw(Buffer.concat(events.map(({ bytes }) => bytes)).subarray(0, -rest(api).length));
      await wire.fin();
    },
    ends: "raises",
  },
  {
    what: "half an event, then FIN",
    apis: ALL,
    async play(wire, api) {
      await wire.chunk(rest(api).subarray(0, 40));
      await wire.fin();
    },
    ends: "raises",
  },
  {
    what: "half an event, then a clean end",
    apis: ALL,
    play: saying((api) => rest(api).subarray(0, 40)),
    ends: "raises",
  },
  {
    what: "half an event, then a reset",
    apis: ALL,
    async play(wire, api) {
      await wire.chunk(rest(api).subarray(0, 40));
      await wire.rst();
    },
    ends: "raises",
  },
  {
    what: "half an event, then an error frame of the engine's own",
    apis: CHOICES,
    play: saying(
      (api) => rest(api).subarray(0, 40),
      () => `data: ${NESTED}\n\n`,
      done,
    ),
    ends: "raises",
    bare: { openAi: "raises", aiSdk: "raises" },
  },
  {
    what: "half an event, a line end, then an error frame of the engine's own",
    apis: CHOICES,
    play: saying(
      (api) => rest(api).subarray(0, 40),
      () => `\ndata: ${NESTED}\n\n`,
      done,
    ),
    ends: "raises",
    bare: { openAi: "raises", aiSdk: "raises" },
  },
  {
    what: "error frame without its blank line, then the end",
    apis: CHOICES,
    play: saying(() => `data: ${NESTED}\n`),
    ends: "raises",
    says: FIRE,
    bare: { openAi: "raises" },
  },
  {
    what: "error frame without any line end, then the end",
    apis: CHOICES,
    play: saying(() => `data: ${NESTED}`),
    ends: "raises",
    says: FIRE,
    bare: { aiSdk: "raises" },
  },
  {
    what: "silence with an open connection",
    apis: ALL,
    play: (wire) => wire.silence(),
    ends: "raises",
    says: "silent for",
  },
  {
    what: "prefill's late 500 while decode goes on",
    apis: ALL,
    play: (wire) => wire.silence(),
    prefill: (wire) => wire.json(500, NESTED),
    ends: "raises",
    says: FIRE,
  },
  {
    what: "prefill's connection reset while decode goes on",
    apis: ALL,
    play: (wire) => wire.silence(),
    prefill: (wire) => wire.rst(),
    ends: "raises",
    says: "prefill worker",
  },
  {
    what: "an abort in prefill's late 200",
    apis: CHAT,
    play: (wire) => wire.silence(),
    prefill: (wire) =>
      wire.json(
        200,
        `{"choices":[{"index":0,"finish_reason":{"type":"abort","message":"${FIRE}","status_code":503}}]}`,
      ),
    ends: "raises",
    says: FIRE,
  },
  // From here on: what looks broken and must not cost the program its answer.
  {
    what: '"error": null in every chunk',
    apis: CHOICES,
    whole: true,
    async play(wire, api) {
      await wire.head(200, "text/event-stream");
      for (const { bytes, role } of answerEvents(api)) {
        await wire.chunk(role === "end" ? bytes : bytes.toString().replace(/}\n\n$/, ',"error": null}\n\n'));
      }
      await wire.end();
    },
    ends: "well",
    bare: { openAi: "silent", aiSdk: "raises" },
  },
  {
    what: "clean end after the finish, without the end mark",
    apis: ALL,
    play: saying((api) => rest(api, ["end"])),
    ends: "well",
  },
  {
    what: "cut after the finish",
    apis: ALL,
    async play(wire, api) {
      await wire.chunk(rest(api, ["end"]));
      await wire.fin();
    },
    ends: "well",
    bare: { openAi: "raises" },
  },
  {
    what: "an error after the finish",
    apis: ALL,
    play: saying((api) => rest(api, ["end"]), errorEvent, done),
    ends: "well",
    bare: { openAi: "raises", aiSdk: "raises" },
  },
  {
    what: "an end mark without its blank line",
    apis: CHOICES,
    play: saying(
      (api) => rest(api, ["end"]),
      () => "data: [DONE]",
    ),
    ends: "well",
  },
  {
    what: "comments, retry fields and CRLF between the events",
    apis: ALL,
    play: saying(
      () => ": ping\n\nretry: 100\n\n",
      (api) => rest(api).toString().replaceAll("\n", "\r\n"),
    ),
    ends: "well",
  },
  {
    what: "the words error and [DONE] inside the text",
    apis: CHAT,
    whole: true,
    play: async (wire) => {
      await wire.head(200, "text/event-stream");
      for (const { bytes } of answerEvents("chat", [...TRICKY])) await wire.chunk(bytes);
      await wire.end();
    },
    ends: "well",
  },
];

/** Text that a search for marks would stumble over. */
export const TRICKY = [
  'data: {"error":{"message":"no"}}\n\n',
  "data: [DONE]\n\n",
  '"finish_reason":"abort"',
  "event: error\n",
];
