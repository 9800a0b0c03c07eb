import type { EngineFault, Stage } from "../errors/failure.ts";
import { messagesFrame, openAiFrame, responsesFrame } from "./error-frame.ts";
import { doneEvent } from "./event-data.ts";
import { readChat, readCompletions, readGenerate } from "./read-choices.ts";
import { readMessages, readResponses } from "./read-typed.ts";
import type { StreamState } from "./stream-state.ts";
import { suspiciousChoices, suspiciousMessages, suspiciousResponses } from "./suspicious.ts";

/** The generation APIs that can be split (contract section 3). Each has its own events, error frame and end mark. */
export type Api = "chat" | "completions" | "responses" | "messages" | "generate";

/** What an error frame says. The same members as the `error` object of an error body (contract section 4). */
export interface FrameError {
  message: string;
  type: string;
  code: string | number | null;
  param: string | null;
  stage: Stage;
}

/** One dispatched event, as `parseEvent` gives it. */
export interface StreamEvent {
  type: string;
  data: string | undefined;
}

/** What one event of decode means for the request (contract section 5). */
export interface EventMeaning {
  /** Commits the status: it carries an answer, or finishes one. */
  answers: boolean;
  /** The last open choice is finished by this event. True at most once per stream. */
  finishes: boolean;
  /** The API's end mark: `[DONE]`, `message_stop`. Nothing may follow it. */
  end: boolean;
  /** Carries usage (alone or beside other things). */
  usage: boolean;
  /** `nested`: already a frame that clients raise on, to be passed on unchanged; else it is turned into `errorFrame`. */
  failure: { fault: EngineFault; nested: boolean } | undefined;
}

/** Everything the relay has to know about one API's event stream. Stateless; what is remembered stands in `StreamState`. */
export interface StreamApi {
  readonly name: Api;
  /** Text of the end mark, a whole event; empty where the end of the body is the end. */
  readonly endMark: string;
  /** What follows an error frame: `[DONE]` as a whole event, or nothing. */
  readonly afterErrorFrame: string;
  /** One whole event, ASCII line ends, one data line. `sequence` is used by responses only. */
  errorFrame(error: FrameError, sequence: number): string;
  /**
   * May this block of whole events hold a finish mark, an end mark, a failure or a comment? `latin1` is the block decoded one byte to one
   * character. Never false for one that does; true for one that does not costs a parse.
   */
  suspicious(latin1: string): boolean;
  /** What a parsed event means; remembers in `state`. Events go in once each and in order. */
  read(event: StreamEvent, state: StreamState): EventMeaning;
}

const chat: StreamApi = {
  name: "chat",
  endMark: doneEvent,
  afterErrorFrame: doneEvent,
  errorFrame: openAiFrame,
  suspicious: suspiciousChoices,
  read: readChat,
};

/** The five APIs (contract sections 4 and 5). */
export const streamApis: Readonly<Record<Api, StreamApi>> = {
  chat,
  completions: { ...chat, name: "completions", read: readCompletions },
  generate: { ...chat, name: "generate", read: readGenerate },
  responses: {
    name: "responses",
    endMark: "",
    afterErrorFrame: "",
    errorFrame: responsesFrame,
    suspicious: suspiciousResponses,
    read: readResponses,
  },
  messages: {
    name: "messages",
    endMark: 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    afterErrorFrame: "",
    errorFrame: messagesFrame,
    suspicious: suspiciousMessages,
    read: readMessages,
  },
};
