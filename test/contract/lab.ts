import type { PrefillRouter } from "../../src/create-router.ts";
import type { Api } from "../../src/sse/api.ts";
import { paths } from "../faults/streams.ts";

/** An error as a client has it. */
export interface Told {
  status: number;
  /** Content type. */
  type: string | null;
  /** `x-router-error-code`. */
  code: string | null;
  /** The top-level `type` (/v1/messages). */
  envelope: unknown;
  error: Record<string, unknown>;
  /** Names of the error's members, in order. */
  members: string[];
  headers: Headers;
}

export async function told(response: Response | Promise<Response>): Promise<Told> {
  const got = await response;
  const body = (await got.json()) as { type?: unknown; error?: Record<string, unknown> };
  const { headers } = got;
  return {
    status: got.status,
    type: headers.get("content-type"),
    code: headers.get("x-router-error-code"),
    envelope: body.type,
    error: body.error ?? {},
    members: Object.keys(body.error ?? {}),
    headers,
  };
}

/** Posts a body to one of the five APIs, in-process. */
export function post(
  router: PrefillRouter,
  api: Api | `/${string}`,
  body: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  const path = api.startsWith("/") ? api : paths[api as Api];
  const request = new Request(`http://router${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
  });
  return Promise.resolve(router.fetch(request));
}

/** The hand-made router's pool, for configurations with models of their own. */
export const POOL = {
  name: "p",
  engine: "sglang",
  prefill: [
    { name: "p1", url: "http://p1:1" },
    { name: "p2", url: "http://p2:1" },
  ],
  decode: [
    { name: "d1", url: "http://d1:1" },
    { name: "d2", url: "http://d2:1" },
  ],
};

/** Model `m` in the hand-made pool, and model `other` on one worker. */
export const TWO_MODELS = [
  { id: "m", pools: [POOL] },
  { id: "other", pools: [{ name: "o", engine: "openai", workers: [{ name: "w1", url: "http://w1:1" }] }] },
];
