import type { Api } from "../../src/sse/api.ts";
import type { Fault, Kind } from "./cells.ts";
import type { Wire } from "./engine.ts";
import { type Mode, prefillAnswer, unreadableAnswer } from "./prefill-answers.ts";
import {
  abortBody,
  abortEvent,
  answerBody,
  answerEvents,
  type EventRole,
  errorEvent,
  errorInside,
  type ScriptedEvent,
} from "./streams.ts";

/** Called when so much of decode's answer is out; decode waits for what it returns. */
export type Reached = (what: "answers" | "finish" | "everything") => Promise<void> | undefined;

export const engineError = (status: number): string =>
  JSON.stringify({ error: { message: `said no with ${status}`, type: "engine_type", param: "p", code: `e${status}` } });

const nonsense = Buffer.from("\u0000\u0001 neither field nor value\n\n");

/** Decode's answer to a streaming request, hit at `fault`. */
export async function playStream(wire: Wire, api: Api, fault: Fault | undefined, reached: Reached): Promise<void> {
  const events = answerEvents(api);
  const { point, kind } = fault ?? {};
  if (point === "headers") return await strike(wire, kind!, api, "headers");
  await wire.head(200, "text/event-stream");
  if (point === "body") return await strike(wire, kind!, api, "stream");
  let answers = 0;
  for (const { role, bytes } of events) {
    if (point === "lead" && role === "answer") return await strike(wire, kind!, api, "stream");
    if (role === "answer" && answers === 2) {
      await reached("answers");
      if (point === "between" && kind === "garbage") await wire.chunk("data: }{ no JSON\nxyz: \u0000\n\n");
      else if (point === "between") return await strike(wire, kind!, api, "stream");
      if (point === "mid") {
        await wire.chunk(bytes.subarray(0, bytes.length >> 1));
        return await strike(wire, kind!, api, "stream");
      }
    }
    if (role === "answer") answers++;
    if (point === "in-finish" && role === "finish") {
      await wire.chunk(bytes.subarray(0, bytes.length - 4));
      return await strike(wire, kind!, api, "stream");
    }
    await wire.chunk(bytes);
    if (role !== "finish") continue;
    await reached("finish");
    if (point === "finished") return await strike(wire, kind!, api, "stream");
  }
  await reached("everything");
  if (point === "end") return await strike(wire, kind!, api, "stream");
  await wire.end();
}

/** What decode will have written of its events by the time it is hit. */
export function deliveredEvents(api: Api, fault: Fault | undefined): { events: ScriptedEvent[]; delivered: number } {
  const events = answerEvents(api);
  const firstAnswer = events.findIndex(({ role }) => role === "answer");
  const finish = events.findIndex(({ role }) => role === "finish");
  switch (fault?.point) {
    case "connect":
    case "headers":
    case "body":
      return { events, delivered: 0 };
    case "lead":
      return { events, delivered: firstAnswer };
    case "between":
      if (fault.kind === "garbage") {
        const garbage = { role: "middle" as EventRole, bytes: Buffer.from("data: }{ no JSON\nxyz: \u0000\n\n") };
        const all = [...events.slice(0, firstAnswer + 2), garbage, ...events.slice(firstAnswer + 2)];
        return { events: all, delivered: all.length };
      }
      return { events, delivered: firstAnswer + 2 };
    case "mid":
      return { events, delivered: firstAnswer + 2 };
    case "in-finish":
      return { events, delivered: finish };
    case "finished":
      return { events, delivered: finish + 1 };
    case "end": {
      // /v1/responses has no end mark after which nothing may come, so what decode says goes on as it is.
      const more =
        api === "responses" && fault.kind === "garbage" ? [{ role: "middle" as EventRole, bytes: nonsense }] : [];
      return { events: [...events, ...more], delivered: events.length + more.length };
    }
    default:
      return { events, delivered: events.length };
  }
}

/** Decode's answer to a buffered request. */
export async function playBuffered(wire: Wire, api: Api, fault: Fault | undefined, reached: Reached): Promise<void> {
  const { point, kind } = fault ?? {};
  if (point === "headers") return await strike(wire, kind!, api, "headers");
  const body = answerBody(api);
  if (fault === undefined) {
    await wire.json(200, body);
    await reached("everything");
    return;
  }
  await playBody(wire, body, fault, api);
}

/** A prefill worker's answer. */
export async function playPrefill(wire: Wire, mode: Mode, api: Api, fault: Fault | undefined): Promise<void> {
  if (fault?.point === "headers") return await strike(wire, fault.kind, api, "headers");
  const body = prefillAnswer(mode, api);
  if (fault === undefined) return await wire.json(200, body);
  if (fault.point !== "end") return await playBody(wire, body, fault, api);
  await wire.json(200, body);
  await strike(wire, fault.kind, api, "body");
}

async function playBody(wire: Wire, body: string, { point, kind }: Fault, api: Api): Promise<void> {
  if (kind === "bare-cut") {
    await wire.head(200, "application/json", "connection: close\r\n");
    // Cut where it looks like a whole object to anybody who looks at the ends only.
    await wire.raw(body.slice(0, -1));
    return await wire.fin();
  }
  await wire.head(200, "application/json");
  if (point === "body") return await strike(wire, kind, api, "body");
  await wire.chunk(body.slice(0, point === "mid" ? body.length >> 1 : body.length));
  await strike(wire, kind, api, "body");
}

async function strike(wire: Wire, kind: Kind, api: Api, where: "headers" | "stream" | "body"): Promise<void> {
  switch (kind) {
    case "refuse":
      return;
    case "rst":
      return await wire.rst();
    case "fin":
      return await wire.fin();
    case "silence":
      return await wire.silence();
    case "clean":
      return await wire.end();
    case "bare-cut":
      return await wire.fin();
    case "bad-chunk":
      await wire.pause(30);
      await wire.raw("zz\r\n");
      return await wire.silence();
    case "garbage":
      if (where === "headers") {
        await wire.raw("SSH-2.0-OpenSSH_9.6\r\n\r\n");
        return await wire.fin();
      }
      await wire.chunk(where === "stream" ? nonsense : unreadableAnswer);
      return await wire.end();
    case "error":
      await wire.chunk(where === "stream" ? errorEvent(api) : errorInside);
      return await wire.end();
    case "abort":
      await wire.chunk(where === "stream" ? abortEvent(api) : abortBody(api));
      return await wire.end();
    default:
      return await wire.json(kind, engineError(kind));
  }
}
