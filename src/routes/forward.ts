import type { Context } from "hono";
import { blame } from "../attempt/blame.ts";
import { outcomeOf } from "../attempt/call.ts";
import { ownedMembers } from "../engines/owned.ts";
import { ClientGone, Failure } from "../errors/failure.ts";
import { splice } from "../json/splice.ts";
import { jsonString } from "../json/text.ts";
import { type CloseReason, Leg } from "../legs/leg.ts";
import { legTrace } from "../legs/leg-trace.ts";
import { outgoingHeaders } from "../legs/outgoing-headers.ts";
import { passedHeaders } from "../legs/passed-headers.ts";
import { mayUse } from "../middleware/may-use.ts";
import { visitOf } from "../regions/visit.ts";
import { engineFault } from "../sse/engine-error.ts";
import { newSpanId } from "../telemetry/ids.ts";
import type { Permit } from "../workers/admission.ts";
import { choose } from "../workers/choose.ts";
import type { Model } from "../workers/fleet.ts";
import { admit } from "./admit.ts";
import type { RouteDeps, Running } from "./deps.ts";
import { asFailure, errorResponse } from "./error-response.ts";
import { modelOf, scanBody } from "./generation-request.ts";
import { invalid, readJsonBody } from "./read-body.ts";
import { requestId } from "./request-id.ts";

/** Routes that one aggregated worker answers alone (contract section 3): nothing in them can be split. */
export const FORWARDED = [
  "/v1/embeddings",
  "/v1/rerank",
  "/v1/score",
  "/v1/classify",
  "/tokenize",
  "/detokenize",
] as const;

const ANSWER_BYTES = 268_435_456;

export function forwardHandler(path: (typeof FORWARDED)[number], deps: RouteDeps): (c: Context) => Promise<Response> {
  const { services, keys, rateLimits, admission, calls } = deps;
  const { config, telemetry, clock, fleet, places, transport } = services;

  return async function forward(c) {
    const { headers } = c.req.raw;
    const record = telemetry.newRecord();
    record.id = requestId(headers);
    record.route = path;
    const { signal } = c.req.raw;
    const background = deps.background(c);
    let permit: Permit | undefined;
    // Whatever ends this request from outside, and the leg it then has to close.
    let stopped: ClientGone | Failure | undefined;
    let closeLeg: ((reason: CloseReason) => void) | undefined;
    const running: Running = { stop };
    const left = () => stop(new ClientGone());
    function stop(why: ClientGone | Failure): void {
      stopped ??= why;
      closeLeg?.(why instanceof ClientGone ? "client" : "shutdown");
    }
    try {
      const client = await keys.client(headers);
      if (client !== undefined) record.clientKey = client.name;
      permit = await admit(admission, headers, signal);
      calls.add(running);
      signal.addEventListener("abort", left, { once: true });
      record.admittedAt = clock.now();
      const text = await readJsonBody(c.req.raw, config.limits.bodyBytes, clock, config.timeouts.totalMs);
      record.bytesIn = text.length;
      const doc = scanBody(text);
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
      const response = await send(body, resolved.model, client?.allowedRegions);
      for (const [name, value] of limits) response.headers.set(name, value);
      record.status = response.status;
      record.outcome = "success";
      return response;
    } catch (error) {
      const outcome = stopped ?? (error instanceof ClientGone ? error : asFailure(error));
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
      return errorResponse(outcome, { requestId: record.id, mask: telemetry.mask });
    } finally {
      signal.removeEventListener("abort", left);
      calls.delete(running);
      permit?.release();
      record.finishedAt = clock.now();
      background.ended?.();
      telemetry.done(record);
    }

    async function send(body: string, model: Model, allowedRegions: readonly string[] | undefined): Promise<Response> {
      const input = { tokens: body.length / 4, prompt: () => body, session: () => `prompt:${body.slice(0, 256)}` };
      const visit = places.matters(model, allowedRegions)
        ? visitOf(c.req.raw, config.geoHeader, allowedRegions)
        : undefined;
      const having = places.order(model, visit, input, clock.now()).filter((pool) => pool.workers.length > 0);
      if (having.length === 0) {
        throw new Failure("not_found", {
          status: 404,
          stage: "router",
          message: `${path} needs an aggregated worker, and none is configured`,
        });
      }
      let lease: ReturnType<typeof choose>;
      for (const pool of having) {
        lease = choose(pool, "aggregated", input, { now: clock.now() });
        if (lease === undefined) continue;
        record.pool = pool.name;
        record.path = "aggregated";
        record.decode = lease.worker.name;
        break;
      }
      if (lease === undefined) {
        throw new Failure("no_decode_workers", {
          status: 503,
          stage: "decode",
          message: "No aggregated worker can take the request",
          retryAfterSeconds: 1,
        });
      }
      const { worker } = lease;
      const leg = new Leg({
        role: "decode",
        worker: worker.name,
        url: worker.url + path,
        headers: {
          ...outgoingHeaders(headers, { clientChecked: !keys.open }),
          "x-request-id": newSpanId() + newSpanId(),
          ...legTrace(record, ""),
          ...(worker.apiKey === undefined ? {} : { authorization: `Bearer ${worker.apiKey}` }),
        },
        body,
        connectMs: config.timeouts.connectMs,
        transport,
        clock,
      });
      const stopLimit =
        config.timeouts.totalMs > 0 ? clock.after(config.timeouts.totalMs, () => leg.close("deadline")) : () => {};
      closeLeg = (reason) => leg.close(reason);
      if (stopped !== undefined || signal.aborted) leg.close("client");
      try {
        const response = await leg.open();
        const { text, truncated } = await leg.text(response, ANSWER_BYTES);
        if (truncated) {
          throw new Failure("decode_failed", {
            status: 502,
            stage: "decode",
            kind: "content",
            message: `The answer is larger than ${ANSWER_BYTES} bytes`,
          });
        }
        if (response.status < 200 || response.status >= 300) {
          const fault = engineFault(text, response.status);
          throw new Failure("decode_failed", {
            status: response.status >= 400 ? response.status : 502,
            stage: "decode",
            kind: "status",
            message: fault.message,
            engine: fault,
            headers: passedHeaders(response.headers),
          });
        }
        worker.succeeded(clock.now());
        record.bytesOut = text.length;
        return new Response(text, { headers: answerHeaders(response, worker.name) });
      } catch (error) {
        const failure =
          leg.closed === "deadline"
            ? new Failure("decode_timeout", {
                status: 504,
                stage: "decode",
                kind: "timeout",
                message: `No complete answer within ${config.timeouts.totalMs} ms`,
              })
            : asFailure(error);
        if (leg.closed === undefined || leg.closed === "deadline") blame(worker, failure, clock.now());
        throw failure;
      } finally {
        stopLimit();
        lease.release();
      }
    }

    function answerHeaders(response: Response, worker: string): Record<string, string> {
      const out: Record<string, string> = {
        "content-type": response.headers.get("content-type") ?? "application/json",
        "x-request-id": record.id,
        "x-router-path": "aggregated",
        "x-router-pool": record.pool,
        "x-router-decode": worker,
      };
      for (const [name, value] of passedHeaders(response.headers)) out[name] = telemetry.mask(value);
      return out;
    }
  };
}
