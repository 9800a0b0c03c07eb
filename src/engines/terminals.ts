import type { EngineOutput } from "../prefill/output.ts";
import type { Dialect, GenerationRequest } from "./dialect.ts";
import { type HandoffMembers, terminalAnswer } from "./terminal-answer.ts";
import { terminalStream } from "./terminal-stream.ts";

/** The part of a dialect that turns terminal prefill answers into the client's, for an engine with these hand-off members. */
export function terminalsWithout(members: HandoffMembers): Pick<Dialect, "terminalAnswer" | "terminalStream"> {
  return {
    terminalAnswer: function terminalAnswerWithout(request: GenerationRequest, output: EngineOutput): string {
      return terminalAnswer(request, output, members);
    },
    terminalStream: function terminalStreamWithout(request: GenerationRequest, output: EngineOutput): string {
      return terminalStream(request, output, members);
    },
  };
}
