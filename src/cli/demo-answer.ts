import { EventSourceParserStream } from "eventsource-parser/stream";
import type { Output } from "./output.ts";

/**
 * Prints a chat stream's text as it comes: `start`, then each delta, then a line feed. A failure is printed as what the router said.
 * The body is read to its end.
 */
export async function printStream(response: Response, start: string, output: Output): Promise<void> {
  if (!response.ok || response.body === null) {
    output.error(`status ${response.status}: ${await response.text()}`);
    return;
  }
  // Where only whole lines can be taken (a test, a log), the answer is one line at its end.
  let text = start;
  const write = output.write ?? keep;
  function keep(piece: string): void {
    text += piece;
  }
  output.write?.(start);
  const events = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
  for await (const { data } of events) {
    if (data === "[DONE]") continue;
    const chunk = JSON.parse(data) as { choices?: { delta?: { content?: string } }[]; error?: { message: string } };
    if (chunk.error !== undefined) output.error(chunk.error.message);
    for (const choice of chunk.choices ?? []) write(choice.delta?.content ?? "");
  }
  if (output.write === undefined) output.line(text);
  else output.write("\n");
}
