import type { Clock } from "../runtime/clock.ts";
import { RemoteSideChannel, type SidePeer } from "./remote-side-channel.ts";
import { SideChannel } from "./side-channel.ts";
import { systemClock } from "./time.ts";

export interface FabricOptions {
  clock?: Clock;
  /** How another process's side channel is reached; `fetch` unless told. `simulate` brings one without fetch's limits. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/**
 * The network over which KV blocks travel between simulated engines. Engines of one process share one object; a port
 * that none of them has opened is looked for over HTTP, so that prefill and decode may also be two processes.
 */
export interface Fabric {
  readonly clock: Clock;
  /** The side channel of a prefill engine. Engines that name the same port share one. */
  open(port: number): SideChannel;
  isOpen(port: number): boolean;
  /** What a decode engine dials. */
  dial(host: string, port: number): SidePeer;
}

export function createFabric(options: FabricOptions = {}): Fabric {
  const clock = options.clock ?? systemClock;
  const fetcher = options.fetch ?? fetch;
  const channels = new Map<number, SideChannel>();

  function open(port: number): SideChannel {
    let channel = channels.get(port);
    if (channel === undefined) {
      channel = new SideChannel(clock);
      channels.set(port, channel);
    }
    return channel;
  }

  function dial(host: string, port: number): SidePeer {
    return channels.get(port) ?? new RemoteSideChannel(host, port, fetcher);
  }

  function isOpen(port: number): boolean {
    return channels.has(port);
  }

  return { clock, open, isOpen, dial };
}
