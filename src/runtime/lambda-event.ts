import type { Hono } from "hono";
import { handle, type LambdaContext, type LambdaEvent } from "hono/aws-lambda";

/**
 * The request in an event: of a function URL, API Gateway, a load balancer. Undefined where none can be made of it (a blank in a header's
 * name). Hono knows the shapes and gives them to an app only, so this one just takes the request: its `streamHandle` would also send the
 * answer, and does not close the body of one whose client is gone.
 */
export async function requestOf(event: LambdaEvent, context: LambdaContext): Promise<Request | undefined> {
  let found: Request | undefined;
  const taker: Pick<Hono, "fetch"> = {
    fetch(request) {
      found = request;
      return new Response(null);
    },
  };
  await handle(taker as Hono)(event, context);
  return found;
}
