import { type EngineError, Refusal } from "./engine-error.ts";
import { PeerUnreachable } from "./remote-side-channel.ts";
import { oneToken, type RoleCall } from "./role.ts";
import { type RoomAddress, readRooms } from "./rooms.ts";
import { findFault, type Ready, runGeneration } from "./run.ts";
import { type Script, silentScript } from "./script.ts";
import type { MeetOutcome } from "./side-channel.ts";
import { computePrompts, type EngineState } from "./state.ts";
import { sleep, within } from "./time.ts";

const timedOut = Symbol("timed out");

/** `n > 1` with one room: both engines wait for samples that never pair up. */
function hangsOnSamples(call: RoleCall): boolean {
  return call.ask.n > 1;
}

/** Computes one token, waits for decode in the room, moves the blocks, and only then answers. */
export async function sglangPrefill(call: RoleCall): Promise<Script> {
  const { state, request, faults } = call;
  const addresses = readRooms(call.ask);
  if (hangsOnSamples(call)) return silentScript("hang");
  const ask = oneToken(call.ask);
  const arrived = state.clock.now();

  async function ready(): Promise<Ready> {
    const leaving = new AbortController();
    const signal = AbortSignal.any([request.signal, state.life.signal, leaving.signal]);
    try {
      // The room is taken at arrival, so that decode's handshake runs while the prompt is computed.
      const offers = addresses.map((address, at) => offer(state, address, ask.prompts[at]?.hash ?? "", signal));
      for (const waiting of offers) waiting.catch(ignore);
      const cached = await computePrompts(state, ask, signal);
      const abort = findFault(call, "abort");
      // An engine that aborts has moved nothing, unless the fault is told to come late.
      if (abort !== undefined && abort.atMs === undefined) return { cached, garbage: "" };
      const met = await within(state.clock, state.timing.pairMs, Promise.all(offers), timedOut);
      if (met === timedOut) throw pairTimeout(state, addresses, "decode");
      await sleep(state.clock, state.timing.transferMs, signal);
      for (const [at, move] of met.entries()) {
        if (!move())
          throw new Refusal(500, `Decode instance of room ${addresses[at]?.room} could be dead: transfer failed`);
      }
      await sleep(state.clock, (abort?.atMs ?? 0) - (state.clock.now() - arrived), signal);
      return { cached, garbage: "" };
    } finally {
      leaving.abort();
    }
  }

  return runGeneration({ state, request, ask, faults, ready, headFirst: false, inputLogprobs: true, firstTokenMs: 0 });
}

async function offer(state: EngineState, address: RoomAddress, prompt: string, signal: AbortSignal) {
  const move = await state.side?.offer(address.room, prompt, signal);
  if (move === undefined) throw new Refusal(500, `Bootstrap room ${address.room} is in use`);
  return move;
}

/** Emits nothing before its room's blocks are there, and is never told when they will not come. */
export async function sglangDecode(call: RoleCall): Promise<Script> {
  const { state, request, ask, faults } = call;
  const addresses = readRooms(ask);
  if (hangsOnSamples(call)) return silentScript("hang");

  async function ready(): Promise<Ready> {
    const leaving = new AbortController();
    const signal = AbortSignal.any([request.signal, state.life.signal, leaving.signal]);
    try {
      const meetings = addresses.map((address, at) => meet(state, address, ask.prompts[at]?.hash ?? "", signal));
      const met = await within(state.clock, state.timing.pairMs, Promise.all(meetings), timedOut);
      if (met === timedOut) throw pairTimeout(state, addresses, "prefill");
      if (met.includes("taken")) throw new Refusal(500, "Bootstrap room is in use");
      if (met.includes("other")) {
        state.stats.mismatched += 1;
        return { cached: 0, garbage: "/other prompt" };
      }
      state.stats.pulled += 1;
      return { cached: 0, garbage: "" };
    } finally {
      leaving.abort();
    }
  }

  return runGeneration({ state, request, ask, faults, ready, headFirst: false, inputLogprobs: false, firstTokenMs: 0 });
}

async function meet(
  state: EngineState,
  address: RoomAddress,
  prompt: string,
  signal: AbortSignal,
): Promise<MeetOutcome> {
  try {
    return await state.fabric.dial(address.host, address.port).meet(address.room, prompt, signal);
  } catch (error) {
    if (!(error instanceof PeerUnreachable)) throw error;
    // The handshake is tried for a while before the engine gives up.
    await sleep(state.clock, state.timing.dialMs, signal);
    throw new Refusal(500, `KVTransferError: could not fetch prefill info from ${address.host}:${address.port}`);
  }
}

function pairTimeout(state: EngineState, addresses: readonly RoomAddress[], other: string): Refusal {
  state.stats.pairTimeouts += 1;
  const rooms = addresses.map((address) => address.room).join(", ");
  const error: EngineError = { status: 500, message: `KVTransferError: no ${other} came to room ${rooms} in time` };
  return new Refusal(error.status, error.message);
}

function ignore(): void {}
