import type { ClientSource } from "../attempt/answer.ts";

/**
 * A source as a response body: pulled, one block at a time, nothing queued, so that a client that does not read stops decode.
 * `left` is called when the client cancels.
 */
export function clientStream(source: ClientSource, left: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const bytes = await source.next();
        if (bytes === undefined) controller.close();
        else controller.enqueue(bytes);
      },
      cancel: left,
    },
    { highWaterMark: 0 },
  );
}
