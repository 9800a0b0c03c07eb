import { type ErrorBody, errorBody } from "../errors/body.ts";
import type { Failure } from "../errors/failure.ts";
import type { StreamApi } from "../sse/api.ts";

const decoder = new TextDecoder();

/**
 * A failure after the commit as the client sees it: one error event, and what the API puts after it (contract section 4). An engine's own
 * nested frame goes out unchanged, unless it holds a configured key.
 *
 * @param sequence what `sequence_number` comes next (/v1/responses only)
 */
export function failureFrame(
  failure: Failure,
  api: StreamApi,
  mask: (text: string) => string,
  sequence: number,
): string {
  return (ownFrame(failure, mask) ?? api.errorFrame(frameError(failure, mask), sequence)) + api.afterErrorFrame;
}

function ownFrame({ frame }: Failure, mask: (text: string) => string): string | undefined {
  if (frame === undefined) return undefined;
  const own = decoder.decode(frame);
  return mask(own) === own ? own : undefined;
}

function frameError(failure: Failure, mask: (text: string) => string): ErrorBody & { stage: Failure["stage"] } {
  return { ...errorBody(failure, mask), stage: failure.stage };
}
