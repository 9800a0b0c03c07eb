import { ClientGone } from "../errors/failure.ts";
import { type Admission, type Permit, requestPriority, type Waiting } from "../workers/admission.ts";

/**
 * A place among the requests in progress: at once (without a promise, for there almost always is one), or as soon as one is free. Throws
 * or rejects with the door's Failure, or with ClientGone when `signal` aborts before: who has left must not hold a waiting place.
 */
export function admit(admission: Admission, headers: Headers, signal: AbortSignal): Permit | Promise<Permit> {
  const entered = admission.enter(requestPriority(headers.get("x-request-priority")));
  if ("refusal" in entered) throw entered.refusal;
  return "permit" in entered ? entered.permit : unlessGone(entered.waiting, signal);
}

function unlessGone(waiting: Waiting, signal: AbortSignal): Promise<Permit> {
  return new Promise((resolve, reject) => {
    function leave(): void {
      waiting.leave();
      reject(new ClientGone());
    }
    if (signal.aborted) return leave();
    signal.addEventListener("abort", leave, { once: true });
    waiting.permit.finally(() => signal.removeEventListener("abort", leave)).then(resolve, reject);
  });
}
