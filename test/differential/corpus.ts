import type { Api } from "../../src/sse/api.ts";

/** A client's request, as the text it would send; `stream` is put in by the test. */
export interface Entry {
  name: string;
  api: Api;
  /** Members beside the model, as JSON text. */
  members: string;
  /** The model's name as the client writes it. */
  model?: string;
  /** Several answers: the router sends several requests. */
  several?: boolean;
  /** Streamed or buffered only. */
  only?: "stream" | "buffered";
}

/** 600 characters, so that prefix caches have something to hold. */
const long = "The river runs under the old bridge every morning. ".repeat(12);

const TOOLS =
  '"tools":[{"type":"function","function":{"name":"zeta_lookup","description":"d","parameters":{"type":"object","properties":{"z":{"type":"integer","const":2512292042121000001},"a":{"type":"string"},"m":{"type":"array","items":{"type":"number"}}},"required":["z","a"],"additionalProperties":false},"strict":true}},{"type":"function","function":{"name":"beta","parameters":{}}}]';

const CHAT = '"messages":[{"role":"user","content":"What runs under the bridge?"}],"max_tokens":12';

/** Sampling members that the engines' chat and completions schemas share. */
const SAMPLING: readonly (readonly [string, string])[] = [
  ["temperature and top_p, digits as written", '"temperature":1.0,"top_p":1e-7'],
  ["penalties", '"frequency_penalty":-0.50,"presence_penalty":2,"repetition_penalty":1.05'],
  ["a seed of 63 bits", '"seed":9223372036854775807'],
  ["a negative seed", '"seed":-9223372036854775808'],
  ["logit_bias", '"logit_bias":{"50256":-100,"11":5.0}'],
  ["a stop string", '"stop":" water"'],
  ["a list of stops", '"stop":["bridge","\\u0000 never"]'],
  ["stop null", '"stop":null'],
  ["stop_token_ids", '"stop_token_ids":[16842790,7]'],
  ["min_tokens", '"min_tokens":5'],
  ["ignore_eos", '"ignore_eos":true'],
  ["top_k, min_p", '"top_k":-1,"min_p":0.0'],
  ["a user as a number beyond 2^53", '"user":12345678901234567890'],
  [
    "engine switches",
    '"skip_special_tokens":false,"spaces_between_special_tokens":false,"include_stop_str_in_output":false',
  ],
  ["bad words and allowed ids", '"bad_words":["x"],"allowed_token_ids":null'],
  ["priority and cache_salt", '"priority":-3,"cache_salt":"s","extra_key":"k"'],
  ["structured outputs", '"structured_outputs":{"regex":"[a-z ]+"},"guided_json":null,"regex":null,"ebnf":null'],
  [
    "unknown members, however deep",
    '"x_new":{"a":[1,null,{"b":2.50,"c":12345678901234567890}]},"__proto__":{"polluted":true}',
  ],
  ["return_token_ids", '"return_token_ids":true'],
];

const chats: readonly (readonly [string, string])[] = [
  ["a plain question", CHAT],
  ["no limit of its own", '"messages":[{"role":"user","content":"hi"}]'],
  [
    "a system message and a conversation",
    '"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"max_tokens":5',
  ],
  ["a long prompt", `"messages":[{"role":"user","content":"${long}"}],"max_tokens":5`],
  ["the same long prompt again", `"messages":[{"role":"user","content":"${long}"}],"max_tokens":6`],
  [
    "escapes and other scripts",
    '"messages":[{"role":"user","content":"\\u00e9\\/ 東京 🙂 \\ud83d\\ude42 \\"model\\": \\t"}],"max_tokens":6',
  ],
  ["white space of every kind", ' "messages" : [ { "role" : "user" ,\n "content" : "hi" } ] ,\t"max_tokens" : 4 '],
  ["duplicate members", '"messages":[],"messages":[{"role":"user","content":"hi"}],"max_tokens":99,"max_tokens":3'],
  [
    "content parts with an image",
    '"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}]}],"max_tokens":4',
  ],
  [
    "audio, video and a part nobody knows",
    '"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},{"type":"video_url","video_url":{"url":"http://v.test/v"}},{"type":"x_new","x":null}]}],"max_tokens":4',
  ],
  ["max_completion_tokens", '"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":7'],
  ["both limits", '"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"max_completion_tokens":9'],
  ["limits of null", '"messages":[{"role":"user","content":"hi"}],"max_tokens":null,"max_completion_tokens":null'],
  ["one token", '"messages":[{"role":"user","content":"hi"}],"max_tokens":1'],
  ["tools, auto", `${CHAT},${TOOLS}`],
  ["tools that are used", `"messages":[{"role":"user","content":"use zeta_lookup"}],${TOOLS},"max_tokens":80`],
  ["tool_choice required", `${CHAT},${TOOLS},"tool_choice":"required","max_tokens":80`],
  [
    "tool_choice by name",
    `${CHAT},${TOOLS},"tool_choice":{"type":"function","function":{"name":"beta"}},"parallel_tool_calls":false`,
  ],
  ["tool_choice none", `${CHAT},${TOOLS},"tool_choice":"none"`],
  ["tools null", `${CHAT},"tools":null,"tool_choice":null`],
  [
    "a tool's answer",
    `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"beta","arguments":"{\\"id\\":2512292042121000001}"}}]},{"role":"tool","tool_call_id":"call_1","content":"7"}],${TOOLS},"max_tokens":5`,
  ],
  ["json_object", `${CHAT},"response_format":{"type":"json_object"}`],
  [
    "json_schema",
    `${CHAT},"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{"zz":{"type":"integer","maximum":9007199254740993},"aa":{"type":"string"}}}}}`,
  ],
  ["response_format text", `${CHAT},"response_format":{"type":"text"}`],
  [
    "thinking by template",
    `${CHAT},"chat_template_kwargs":{"enable_thinking":true},"separate_reasoning":true,"stream_reasoning":true,"max_tokens":20`,
  ],
  ["thinking switched off", `${CHAT},"chat_template_kwargs":{"enable_thinking":false,"z":1,"a":2}`],
  ["reasoning_effort", `${CHAT},"reasoning_effort":"high","include_reasoning":true`],
  [
    "reasoning in the history",
    '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"hm"},{"role":"user","content":"c"}],"max_tokens":5',
  ],
  ["logprobs", `${CHAT},"logprobs":true,"top_logprobs":2`],
  ["logprobs off", `${CHAT},"logprobs":false`],
  [
    "documents and a template",
    `${CHAT},"documents":[{"title":"t","text":"x"}],"add_generation_prompt":true,"continue_final_message":false`,
  ],
  ["media options", `${CHAT},"mm_processor_kwargs":{"fps":1.0},"max_pixels":null`],
  ["store and metadata", `${CHAT},"store":false,"metadata":{"k":"v"},"service_tier":"auto"`],
  [
    "nulls everywhere",
    `${CHAT},"n":null,"seed":null,"logit_bias":null,"top_logprobs":null,"response_format":null,"user":null`,
  ],
  ["n of one", `${CHAT},"n":1`],
  ...SAMPLING.map(([name, members]) => [name, `${CHAT},${members}`] as const),
];

const TEXT = '"prompt":"Once upon a time","max_tokens":10';

const completions: readonly (readonly [string, string])[] = [
  ["a plain prompt", TEXT],
  ["the engine's own limit", '"prompt":"Once"'],
  ["token ids", '"prompt":[7,8,9],"max_tokens":4'],
  ["a list of one", '"prompt":["one"],"max_tokens":4'],
  ["a list of one list of ids", '"prompt":[[5,6]],"max_tokens":4'],
  ["a long prompt", `"prompt":"${long}","max_tokens":4`],
  ["the same long prompt again", `"prompt":"${long}","max_tokens":5`],
  ["escapes", '"prompt":"\\u00e9\\/\\n🙂","max_tokens":4'],
  ["one token", '"prompt":"a","max_tokens":1'],
  ["echo", `${TEXT},"echo":true`],
  ["logprobs", `${TEXT},"logprobs":2`],
  ["logprobs of none", `${TEXT},"logprobs":0`],
  ["a suffix", `${TEXT},"suffix":null,"best_of":1`],
  ["a LoRA path", `${TEXT},"lora_path":"my-lora","session_params":null,"return_hidden_states":false`],
  ...SAMPLING.map(([name, members]) => [name, `${TEXT},${members}`] as const),
];

const responses: readonly (readonly [string, string])[] = [
  ["a text", '"input":"What runs?","max_output_tokens":9'],
  ["no limit", '"input":"What runs?"'],
  ["instructions", '"input":"a","instructions":"Be brief.","max_output_tokens":5'],
  [
    "items",
    '"input":[{"role":"user","content":"a"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},{"role":"user","content":[{"type":"input_text","text":"c"}]}],"max_output_tokens":5',
  ],
  [
    "an image",
    '"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}],"max_output_tokens":5',
  ],
  ["a long input", `"input":"${long}","max_output_tokens":5`],
  ["the same long input again", `"input":"${long}","max_output_tokens":6`],
  [
    "tools",
    '"input":"use a tool","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"q":{"type":"string"}}},"strict":null}],"max_output_tokens":60',
  ],
  [
    "tool_choice",
    '"input":"x","tools":[{"type":"function","name":"f","parameters":null}],"tool_choice":{"type":"function","name":"f"},"max_output_tokens":60',
  ],
  [
    "a function's output",
    '"input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"}],"max_output_tokens":5',
  ],
  ["reasoning", '"input":"think","reasoning":{"effort":"low","summary":null},"max_output_tokens":30'],
  [
    "text format",
    '"input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{"z":1,"a":2}}},"max_output_tokens":5',
  ],
  ["sampling", '"input":"x","temperature":0.70,"top_p":1.0,"seed":9007199254740993,"max_output_tokens":5'],
  [
    "metadata and switches",
    '"input":"x","metadata":{"k":"v"},"store":false,"background":false,"previous_response_id":null,"parallel_tool_calls":true,"truncation":"disabled","max_output_tokens":5',
  ],
  ["one token", '"input":"x","max_output_tokens":1'],
  ["unknown members", '"input":"x","x_new":{"b":[2.50,null]},"priority":1,"user":"u","max_output_tokens":5'],
];

const MESSAGES = '"messages":[{"role":"user","content":"What runs?"}],"max_tokens":9';

const messages: readonly (readonly [string, string])[] = [
  ["a text", MESSAGES],
  ["a system text", `"system":"Be brief.",${MESSAGES}`],
  [
    "system blocks with cache marks",
    `"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],${MESSAGES}`,
  ],
  [
    "blocks",
    '"max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}]',
  ],
  [
    "a conversation",
    '"max_tokens":5,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]',
  ],
  ["a long prompt", `"max_tokens":5,"messages":[{"role":"user","content":"${long}"}]`],
  ["the same long prompt again", `"max_tokens":6,"messages":[{"role":"user","content":"${long}"}]`],
  ["stop_sequences", `${MESSAGES},"stop_sequences":[" water","never"]`],
  ["sampling", `${MESSAGES},"temperature":1.0,"top_p":0.90,"top_k":40`],
  [
    "tools",
    '"max_tokens":60,"messages":[{"role":"user","content":"use a tool"}],"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}}}}]',
  ],
  [
    "tool_choice any",
    `${MESSAGES},"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}`,
  ],
  [
    "a tool's result",
    '"max_tokens":5,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"n":2512292042121000001}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"7"}]}]',
  ],
  ["thinking", `${MESSAGES},"thinking":{"type":"enabled","budget_tokens":1024},"max_tokens":30`],
  ["metadata", `${MESSAGES},"metadata":{"user_id":"u"},"service_tier":"auto"`],
  ["unknown members", `${MESSAGES},"x_new":[1.50,{"a":null}],"chat_template_kwargs":{"b":1,"a":2}`],
  ["one token", '"max_tokens":1,"messages":[{"role":"user","content":"a"}]'],
];

const generates: readonly (readonly [string, string])[] = [
  ["a text", '"text":"Once upon","sampling_params":{"max_new_tokens":8}'],
  ["the engine's own limit", '"text":"Once"'],
  ["token ids", '"input_ids":[5,6,7],"sampling_params":{"max_new_tokens":4}'],
  ["a list of one", '"text":["one"],"sampling_params":{"max_new_tokens":4}'],
  ["a long text", `"text":"${long}","sampling_params":{"max_new_tokens":4}`],
  ["the same long text again", `"text":"${long}","sampling_params":{"max_new_tokens":5}`],
  [
    "sampling",
    '"text":"a","sampling_params":{"temperature":0.0,"top_p":1.0,"sampling_seed":9007199254740993,"stop":[" water"],"max_new_tokens":8}',
  ],
  ["output logprobs", '"text":"a b c","sampling_params":{"max_new_tokens":4},"return_logprob":true'],
  [
    "output logprobs with texts",
    '"text":"a b c","sampling_params":{"max_new_tokens":4},"return_logprob":true,"top_logprobs_num":2,"logprob_start_len":-1,"return_text_in_logprobs":true',
  ],
  [
    "input logprobs",
    '"text":"a longer text than that","sampling_params":{"max_new_tokens":4},"return_logprob":true,"logprob_start_len":0',
  ],
  [
    "input logprobs from a place on, with alternatives",
    '"text":"a longer text than that","sampling_params":{"max_new_tokens":4},"return_logprob":true,"logprob_start_len":2,"top_logprobs_num":2',
  ],
  [
    "media",
    '"text":"a","image_data":"data:image/png;base64,AA==","audio_data":null,"sampling_params":{"max_new_tokens":4}',
  ],
  [
    "unknown members",
    '"text":"a","sampling_params":{"max_new_tokens":3,"custom_params":{"z":1,"a":2.50}},"x_new":null,"priority":-3,"lora_path":null,"session_params":{"id":"s"}',
  ],
  ["min_new_tokens", '"text":"a","sampling_params":{"max_new_tokens":9,"min_new_tokens":5}'],
  ["no stream options of its own", '"text":"a","sampling_params":{"max_new_tokens":3},"stream_options":null'],
];

function entries(api: Api, rows: readonly (readonly [string, string])[]): Entry[] {
  return rows.map(([name, members]) => ({ name, api, members }));
}

const USAGE = '"stream_options":{"include_usage":true}';

/** What one engine, asked directly, must answer as the router does. */
export const corpus: readonly Entry[] = [
  ...entries("chat", chats),
  ...entries("completions", completions),
  ...entries("responses", responses),
  ...entries("messages", messages),
  ...entries("generate", generates),
  { name: "usage asked for", api: "chat", members: `${CHAT},${USAGE}`, only: "stream" },
  {
    name: "usage asked for, a long prompt again",
    api: "chat",
    members: `"messages":[{"role":"user","content":"${long}"}],"max_tokens":7,${USAGE}`,
    only: "stream",
  },
  {
    name: "usage asked for",
    api: "completions",
    members: `"prompt":"${long}","max_tokens":6,${USAGE}`,
    only: "stream",
  },
  {
    name: "usage not asked for",
    api: "chat",
    members: `${CHAT},"stream_options":{"include_usage":false}`,
    only: "stream",
  },
  { name: "stream_options null", api: "chat", members: `${CHAT},"stream_options":null` },
  { name: "a LoRA adapter", api: "chat", members: CHAT, model: "my-lora" },
  { name: "a LoRA adapter", api: "completions", members: TEXT, model: "my-lora" },
  ...(["chat", "completions"] as const).flatMap((api): Entry[] => [
    { name: "an alias", api, members: `${api === "chat" ? CHAT : TEXT},"user":"demo-model"`, model: "alias" },
    {
      name: "an alias, with usage",
      api,
      members: `${api === "chat" ? CHAT : TEXT},${USAGE}`,
      model: "alias",
      only: "stream",
    },
  ]),
  { name: "an alias", api: "responses", members: '"input":"demo-model","max_output_tokens":5', model: "alias" },
  { name: "an alias", api: "messages", members: MESSAGES, model: "alias" },
  { name: "n of three", api: "chat", members: `${CHAT},"n":3,"seed":5`, several: true },
  { name: "two prompts", api: "completions", members: '"prompt":["a","b"],"max_tokens":4', several: true },
];

/** What only vLLM has, and what only prefill can tell. */
export const vllmCorpus: readonly Entry[] = [
  { name: "prompt_logprobs", api: "chat", members: `${CHAT},"prompt_logprobs":2`, only: "buffered" },
  { name: "prompt_logprobs", api: "completions", members: `${TEXT},"prompt_logprobs":0`, only: "buffered" },
  {
    name: "prompt_logprobs of none in a stream",
    api: "completions",
    members: `${TEXT},"prompt_logprobs":0`,
    only: "stream",
  },
  { name: "prompt_logprobs null", api: "chat", members: `${CHAT},"prompt_logprobs":null` },
];

export const echoCorpus: readonly Entry[] = [
  { name: "echo with logprobs", api: "completions", members: `${TEXT},"echo":true,"logprobs":2` },
  {
    name: "echo with logprobs and usage",
    api: "completions",
    members: `${TEXT},"echo":true,"logprobs":1,${USAGE}`,
    only: "stream",
  },
  {
    name: "echo of token ids with logprobs",
    api: "completions",
    members: '"prompt":[7,300,9],"max_tokens":4,"echo":true,"logprobs":1',
  },
  {
    name: "echo of other scripts with logprobs",
    api: "completions",
    members: '"prompt":"é 東京 🙂!","max_tokens":4,"echo":true,"logprobs":1',
  },
];
