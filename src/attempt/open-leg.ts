import type { LegRequest } from "../engines/dialect.ts";
import { Leg } from "../legs/leg.ts";
import { legTrace } from "../legs/leg-trace.ts";
import type { Worker } from "../workers/worker.ts";
import type { Call } from "./call.ts";
import type { Services } from "./services.ts";

/** A leg to one worker: the client's passable headers, the router's own id, one authorization rule (contract section 7). */
export function openLeg(
  services: Services,
  call: Call,
  role: "prefill" | "decode",
  worker: Worker,
  request: LegRequest,
  id: string,
): Leg {
  const { record } = call;
  const span = services.telemetry.newLegSpan(record);
  if (role === "prefill") record.prefillSpanId = span;
  else record.decodeSpanId = span;
  const headers: Record<string, string> = { ...request.headers, "x-request-id": id };
  legTrace(record, span, headers);
  if (worker.apiKey !== undefined) headers.authorization = `Bearer ${worker.apiKey}`;
  return new Leg({
    role,
    worker: worker.name,
    url: worker.url + request.path,
    headers,
    shared: call.outgoing,
    body: request.body,
    connectMs: services.config.timeouts.connectMs,
    fresh: call.freshConnections,
    transport: services.transport,
    clock: services.clock,
    background: call.background,
  });
}
