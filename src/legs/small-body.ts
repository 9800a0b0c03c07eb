/**
 * The body of an answer that should be small (facts about an engine, never a client's answer), as text; `undefined` when it is larger
 * than `limit` bytes. What is beyond is not read: the body is cancelled, so an engine that never ends its answer, or whose few bytes
 * on the wire unpack to gigabytes, costs this much and no more. Rejects as the body's own reader does.
 */
export async function smallText(response: Response, limit: number): Promise<string | undefined> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > limit) {
      reader.cancel().catch(ignore);
      return undefined;
    }
    text += decoder.decode(value, { stream: true });
  }
}

function ignore(): void {}
