import { urlsOf } from "../stand/sides.ts";

/** The least a Worker can do: hand an engine's answer on. What is more than this is the router's. */
export function bareWorker(): string {
  const [engine = ""] = urlsOf("whole", "aggregated");
  return `export default {
  fetch(request) {
    const { pathname } = new URL(request.url);
    return fetch("${engine}" + pathname, { method: request.method, headers: request.headers, body: request.body });
  },
};
`;
}

/** Neither engines nor router: what workerd itself needs to start. */
export const EMPTY_WORKER = "export default { fetch: () => new Response('{}') };\n";
