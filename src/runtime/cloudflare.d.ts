/** The parts of the platform's own modules that the Workers entry and its tests use. */
declare module "cloudflare:workers" {
  export const env: Readonly<Record<string, unknown>>;
}

declare module "cloudflare:sockets" {
  export function connect(address: { hostname: string; port: number }): {
    opened: Promise<unknown>;
    close(): Promise<void>;
  };
}
