import type { Transport } from "../legs/transport.ts";

/** Plain web-standard `fetch`: what is right on every runtime that has no better way. */
export const webTransport: Transport = {
  fetch: (url, request) => fetch(url, { ...request, redirect: "manual" }),
};
