/** The part of the platform's own module that the Workers entry uses. */
declare module "cloudflare:sockets" {
  export function connect(address: { hostname: string; port: number }): {
    opened: Promise<unknown>;
    close(): Promise<void>;
  };
}
