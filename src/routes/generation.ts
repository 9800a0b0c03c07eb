import { Call, outcomeOf } from "../attempt/call.ts";
import { asFailure, ClientGone, Failure } from "../errors/failure.ts";
import type { JsonObject } from "../json/scan.ts";
import { jsonString } from "../json/text.ts";
import { outgoingHeaders } from "../legs/outgoing-headers.ts";
import { mayUse } from "../middleware/may-use.ts";
import { visitOf } from "../regions/visit.ts";
import type { Api } from "../sse/api.ts";
import type { RequestRecord } from "../telemetry/record.ts";
import type { Permit } from "../workers/admission.ts";
import type { ResolvedModel } from "../workers/fleet.ts";
import { admit } from "./admit.ts";
import { noteWay } from "./answer-headers.ts";
import { BodyPrompt } from "./body-prompt.ts";
import type { RouteDeps } from "./deps.ts";
import { errorResponse } from "./error-response.ts";
import { generationRequest, modelOf, scanBody } from "./generation-request.ts";
import { invalid, readJsonBody } from "./read-body.ts";
import { requestId } from "./request-id.ts";
import { respondInTime, toResponse } from "./respond.ts";

/** What a generation route needs to know of a request; Hono's context is one. */
export interface GenerationContext {
  req: { raw: Request };
  executionCtx?: unknown;
}

export type GenerationHandler = (c: GenerationContext) => Promise<Response>;

/** POST of one generation API: from the client's bytes to a `Call`, from its answer to a response. */
export function generationHandler(api: Api, path: string, deps: RouteDeps): GenerationHandler {
  const { services, admission, keys, rateLimits, router, calls } = deps;
  const { config, telemetry, clock } = services;

  return async function generate(c) {
    const request = c.req.raw;
    const { headers } = request;
    const record = telemetry.newRecord();
    record.id = requestId(headers);
    record.route = path;
    // Before the first wait: where a request's context ends with its client, nothing here would hear of it otherwise.
    const background = deps.background(c);
    let permit: Permit | undefined;
    let call: Call | undefined;
    try {
      const client = keys.open ? undefined : await keys.client(headers);
      if (client !== undefined) record.clientKey = client.name;
      const admitted = admit(admission, headers, request.signal);
      permit = admitted instanceof Promise ? await admitted : admitted;
      record.admittedAt = clock.now();
      const { text, bytes } = await readJsonBody(request, config.limits.bodyBytes, clock, config.timeouts.totalMs);
      record.bytesIn = bytes;
      const doc = scanBody(text);
      const { name, resolved } = findModel(api, doc);
      record.model = resolved.model.id;
      if (!mayUse(client, resolved.model.id, name)) {
        throw new Failure("forbidden", { status: 403, stage: "router", message: "This key may not use this model" });
      }
      const engineModel = resolved.engineModel === undefined ? undefined : jsonString(resolved.engineModel);
      const parsed = generationRequest(api, path, doc, name, engineModel);
      record.streaming = parsed.stream;
      const choice = new BodyPrompt(api, doc, headers);
      record.promptEstimate = Math.ceil(choice.tokens);
      const limits = rateLimits.take(client, choice.tokens);
      telemetry.beginTrace(record, headers);
      call = new Call({
        request: parsed,
        outgoing: outgoingHeaders(headers, { clientChecked: client !== undefined }),
        record,
        choice,
        background,
      });
      call.limits = limits;
      if (services.places.matters(resolved.model, client?.allowedRegions)) {
        call.visit = visitOf(request, config.geoHeader, client?.allowedRegions);
      }
      call.wantsTiming = headers.get("x-router-timing") === "1";
      begin(call, permit, request.signal);
      const pending = router.generate(call, resolved.model);
      const keptAlive = parsed.stream && config.timeouts.keepAliveMs > 0;
      return keptAlive ? await respondInTime(call, pending, deps) : toResponse(call, await pending, deps);
    } catch (error) {
      // A body that ends early because its client has left is nobody's bad request.
      const left = error instanceof ClientGone || (call === undefined && request.signal.aborted);
      const failure = left ? clientGone() : asFailure(error);
      record.status = failure.status;
      if (failure.code === "internal" && !left) {
        telemetry.log.event("error", "internal", { request: record.id, error: failure.cause });
      }
      if (call !== undefined) call.done(error instanceof ClientGone ? error : failure);
      else {
        refuse(record, failure, left);
        permit?.release();
        background.ended?.();
      }
      return errorResponse(failure, {
        requestId: record.id,
        anthropic: api === "messages",
        headers: noteWay({}, record),
        mask: telemetry.mask,
      });
    }
  };

  function begin(call: Call, permit: Permit, signal: AbortSignal): void {
    calls.add(call);
    const ended = deps.ended();
    if (ended !== undefined) call.stop(ended);
    const leave = () => call.leave();
    if (signal.aborted) call.leave();
    else signal.addEventListener("abort", leave, { once: true });
    call.onDone(() => {
      calls.delete(call);
      permit.release();
      call.record.finishedAt = clock.now();
      if (call.record.outcome === "client_cancel") call.record.status = 499;
      telemetry.done(call.record, config.log.prompts ? call.choice.prompt() : undefined);
    });
  }

  function refuse(record: RequestRecord, failure: Failure, gone: boolean): void {
    if (!gone) {
      record.code = failure.code;
      record.stage = failure.stage;
    }
    record.outcome = gone ? "client_cancel" : outcomeOf(failure);
    record.finishedAt = clock.now();
    telemetry.done(record);
  }

  function findModel(api: Api, doc: JsonObject): { name: string; resolved: ResolvedModel } {
    const name = modelOf(doc);
    if (name === undefined) {
      if (api !== "generate") throw invalid('"model" is missing', "model");
      const only = services.fleet.models().filter((model) => model.pools.some((pool) => pool.engine === "sglang"));
      if (only.length !== 1) throw invalid('"model" is missing, and there is not exactly one SGLang model', "model");
      return { name: only[0]!.id, resolved: { model: only[0]!, engineModel: undefined } };
    }
    const resolved = services.fleet.resolve(name);
    if (resolved === undefined) {
      throw new Failure("model_not_found", {
        status: 404,
        stage: "router",
        param: "model",
        message: `The model "${name.slice(0, 200)}" does not exist here`,
      });
    }
    return { name, resolved };
  }
}

/** Nobody reads this; it only has to be a response. */
function clientGone(): Failure {
  return new Failure("internal", { status: 499, stage: "router", message: "The client closed its connection" });
}
