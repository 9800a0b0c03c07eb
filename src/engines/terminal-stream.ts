import type { EngineOutput } from "../prefill/output.ts";
import type { GenerationRequest } from "./dialect.ts";
import { DONE_EVENT, dataEvent } from "./event-text.ts";
import { type HandoffMembers, terminalDoc } from "./terminal-answer.ts";
import { chatEvents, completionEvents } from "./terminal-choices.ts";
import { messagesEvents } from "./terminal-messages.ts";
import { responsesEvents } from "./terminal-responses.ts";

/**
 * Prefill's answer where it is the client's and the client asked for a stream (contract section 5): whole events of the request's
 * API, its end mark included. What stands in the answer is copied as text; the finish reason stays the engine's word.
 */
export function terminalStream(request: GenerationRequest, output: EngineOutput, members: HandoffMembers): string {
  const doc = terminalDoc(request, output, members);
  switch (request.api) {
    case "chat":
      return chatEvents(doc, request.includeUsage);
    case "completions":
      return completionEvents(doc, request.includeUsage);
    case "responses":
      return responsesEvents(doc);
    case "messages":
      return messagesEvents(doc);
    case "generate":
      return dataEvent(doc.text) + DONE_EVENT;
  }
}
