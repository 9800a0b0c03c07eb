import type { Context } from "hono";
import { outcomeOf } from "../attempt/call.ts";
import { type ForwardedAnswer, forwardTo } from "../attempt/forward-attempt.ts";
import { Tries } from "../attempt/tries.ts";
import { ownedMembers } from "../engines/owned.ts";
import { asFailure, ClientGone, Failure } from "../errors/failure.ts";
import { readString } from "../json/member.ts";
import type { JsonObject } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import { jsonString } from "../json/text.ts";
import { outgoingHeaders } from "../legs/outgoing-headers.ts";
import { mayUse } from "../middleware/may-use.ts";
import { visitOf } from "../regions/visit.ts";
import type { RequestRecord } from "../telemetry/record.ts";
import type { Permit } from "../workers/admission.ts";
import { choose } from "../workers/choose.ts";
import type { Model } from "../workers/fleet.ts";
import type { Lease } from "../workers/lease.ts";
import type { ChoiceInput } from "../workers/policy.ts";
import type { Pool } from "../workers/pool.ts";
import { admit } from "./admit.ts";
import { noteWay } from "./answer-headers.ts";
import type { RouteDeps } from "./deps.ts";
import { errorResponse } from "./error-response.ts";
import { modelOf, scanBody } from "./generation-request.ts";
import { invalid, readJsonBody } from "./read-body.ts";
import { requestId } from "./request-id.ts";
import { Stoppable } from "./stoppable.ts";

/** Routes that one aggregated worker answers alone (contract section 3): nothing in them can be split. */
export const FORWARDED = [
  "/v1/embeddings",
  "/v1/rerank",
  "/v1/score",
  "/v1/classify",
  "/tokenize",
  "/detokenize",
] as const;

const encoder = new TextEncoder();

export function forwardHandler(path: (typeof FORWARDED)[number], deps: RouteDeps): (c: Context) => Promise<Response> {
  const { services, keys, rateLimits, admission, calls, router } = deps;
  const { config, telemetry, clock, fleet, places } = services;

  return async function forward(c) {
    const { headers } = c.req.raw;
    const record = telemetry.newRecord();
    record.id = requestId(headers);
    record.route = path;
    const { signal } = c.req.raw;
    const background = deps.background(c);
    let permit: Permit | undefined;
    // As it was when the key was looked at: a reload may change it.
    let clientChecked = false;
    const running = new Stoppable();
    const left = () => running.stop(new ClientGone());
    try {
      const client = await keys.client(headers);
      clientChecked = client !== undefined;
      if (client !== undefined) record.clientKey = client.name;
      permit = await admit(admission, headers, signal);
      calls.add(running);
      if (signal.aborted) left();
      else signal.addEventListener("abort", left, { once: true });
      record.admittedAt = clock.now();
      const { text, bytes } = await readJsonBody(c.req.raw, config.limits.bodyBytes, clock, config.timeouts.totalMs);
      record.bytesIn = bytes;
      const doc = scanBody(text);
      refuseBinary(doc);
      const name = modelOf(doc);
      if (name === undefined) throw invalid('"model" is missing', "model");
      const resolved = fleet.resolve(name);
      if (resolved === undefined) {
        throw new Failure("model_not_found", {
          status: 404,
          stage: "router",
          param: "model",
          message: `The model "${name.slice(0, 200)}" does not exist here`,
        });
      }
      record.model = resolved.model.id;
      if (!mayUse(client, resolved.model.id, name)) {
        throw new Failure("forbidden", { status: 403, stage: "router", message: "This key may not use this model" });
      }
      const limits = rateLimits.take(client, (doc.close - doc.open) / 4);
      telemetry.beginTrace(record, headers);
      const engineModel = resolved.engineModel === undefined ? undefined : jsonString(resolved.engineModel);
      const body = splice(doc, { drop: ownedMembers, set: { model: engineModel } });
      const alias = resolved.engineModel === undefined ? undefined : name;
      const response = answered(await send(body, alias, resolved.model, client?.allowedRegions), record);
      for (const [name, value] of limits) response.headers.set(name, value);
      record.status = response.status;
      record.outcome = "success";
      return response;
    } catch (error) {
      const outcome = running.stopped ?? (error instanceof ClientGone ? error : asFailure(error));
      if (outcome instanceof ClientGone) {
        record.status = 499;
        record.outcome = "client_cancel";
        // Nobody reads this; it only has to be a response.
        return new Response(null, { status: 499 });
      }
      record.status = outcome.status;
      record.code = outcome.code;
      record.stage = outcome.stage;
      record.outcome = outcomeOf(outcome);
      return errorResponse(outcome, { requestId: record.id, headers: noteWay({}, record), mask: telemetry.mask });
    } finally {
      signal.removeEventListener("abort", left);
      calls.delete(running);
      permit?.release();
      record.finishedAt = clock.now();
      background.ended?.();
      telemetry.done(record);
    }

    async function send(
      body: string,
      alias: string | undefined,
      model: Model,
      allowedRegions: readonly string[] | undefined,
    ): Promise<ForwardedAnswer> {
      const input = { tokens: body.length / 4, prompt: () => body, session: () => `prompt:${body.slice(0, 256)}` };
      const visit = places.matters(model, allowedRegions)
        ? visitOf(c.req.raw, config.geoHeader, allowedRegions)
        : undefined;
      const tries = new Tries(services, running);
      const { totalMs } = config.timeouts;
      let spentMs = 0;
      router.budget.request(clock.now());
      for (;;) {
        if (running.stopped !== undefined) throw running.stopped;
        const pools = places.order(model, visit, input, clock.now()).filter((pool) => pool.workers.length > 0);
        if (pools.length === 0) throw nowhere(path);
        const lease = reserve(pools, input, tries, clock.now());
        if (lease === undefined) throw tries.last ?? nobodyUsable();
        record.attempts++;
        record.pool = lease.worker.pool;
        record.path = "aggregated";
        record.decode = lease.worker.name;
        const from = clock.now();
        let endLeg = () => {};
        try {
          return await forwardTo(
            lease.worker,
            {
              path,
              headers: outgoingHeaders(headers, { clientChecked }),
              body,
              alias,
              record,
              fresh: running.freshConnections,
              limitMs: totalMs === 0 ? 0 : Math.max(1, totalMs - spentMs),
              opening(close) {
                endLeg = running.onStop((why) => close(why instanceof ClientGone ? "client" : "shutdown"));
              },
            },
            services,
          );
        } catch (error) {
          spentMs += clock.now() - from;
          lease.release();
          const tried = { prefill: undefined, decode: lease.worker, split: undefined };
          await tries.again(running.stopped ?? error, tried, (now) => router.budget.take(now));
        } finally {
          endLeg();
          lease.release();
        }
      }
    }
  };
}

/** A worker that has not failed this request yet; where that is not demanded, one that has is better than none. */
function reserve(pools: readonly Pool[], input: ChoiceInput, tries: Tries, now: number): Lease | undefined {
  const exclude = tries.avoidDecode;
  for (const pool of pools) {
    const lease = choose(pool, "aggregated", input, { now, exclude });
    if (lease !== undefined) return lease;
  }
  if (tries.onlyOthers) return undefined;
  for (const pool of pools) {
    const lease = choose(pool, "aggregated", input, { now, lastResort: true });
    if (lease !== undefined) return lease;
  }
  return undefined;
}

/** vLLM answers these with bytes, and with a header of its own that says what they are; here answers are JSON. */
function refuseBinary(doc: JsonObject): void {
  const format = readString(doc, "encoding_format");
  if (format === "bytes" || format === "bytes_only")
    throw invalid(`"encoding_format" may not be "${format}" here: answers are JSON`, "encoding_format");
}

function answered({ text, contentType, headers }: ForwardedAnswer, record: RequestRecord): Response {
  const body = encoder.encode(text);
  record.bytesOut = body.length;
  const out = noteWay({ "content-type": contentType, "x-request-id": record.id }, record);
  for (const [name, value] of headers) out[name] = value;
  return new Response(body, { headers: out });
}

function nowhere(path: string): Failure {
  return new Failure("not_found", {
    status: 404,
    stage: "router",
    message: `${path} needs an aggregated worker, and none is configured`,
  });
}

function nobodyUsable(): Failure {
  return new Failure("no_decode_workers", {
    status: 503,
    stage: "decode",
    message: "No aggregated worker can take the request",
    retryAfterSeconds: 1,
  });
}
