import type { Clock } from "../runtime/clock.ts";
import { Preamble } from "../sse/preamble.ts";
import type { BodyReader } from "./exchange.ts";
import type { Leg } from "./leg.ts";

/** Of an error's body: what is waited for, in characters and milliseconds. What clients see of it is bounded elsewhere. */
const MOST_TEXT = 1_048_576;
const PATIENCE_MS = 2_000;

/**
 * What an engine says of its error, as much of it as comes: the answer's status is known, and is neither kept back for a body that does not
 * end nor doubted for one that is cut. What is left of it is read away. Never rejects.
 *
 * @param leg its answer's head has come, with a status that is no success
 */
export function complaintOf(leg: Leg, clock: Clock): Promise<string> {
  const decoder = new TextDecoder();
  const preamble = new Preamble();
  let text = "";
  leg.complaining = true;
  return new Promise((resolve) => {
    const tell = (): void => {
      if (!leg.complaining) return;
      leg.complaining = false;
      stop();
      resolve(text);
      leg.finish(PATIENCE_MS);
    };
    const stop = clock.after(PATIENCE_MS, tell);
    const reader: BodyReader = {
      chunk(bytes) {
        if (!leg.complaining) return;
        if (bytes !== undefined) text += preamble.strip(decoder.decode(bytes, { stream: true }));
        if (bytes === undefined || text.length > MOST_TEXT) tell();
        else leg.pull(reader);
      },
      cut: tell,
    };
    leg.pull(reader);
  });
}
