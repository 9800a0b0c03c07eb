/** The generation APIs that can be split (contract section 3). Each has its own events, error frame and end mark. */
export type Api = "chat" | "completions" | "responses" | "messages" | "generate";
