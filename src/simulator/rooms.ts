import type { Ask } from "./ask.ts";
import { Refusal } from "./engine-error.ts";
import { integerText, type Json, numberOf } from "./json.ts";

/** Where one prompt's two legs meet. */
export interface RoomAddress {
  host: string;
  port: number;
  /** Digits: rooms go up to 2^63 − 1. */
  room: string;
}

const roomLimit = 2n ** 63n;

/** The bootstrap members of a leg, one address per prompt. Throws the engine's 400. */
export function readRooms(ask: Ask): RoomAddress[] {
  const { bootstrap_host: hosts, bootstrap_port: ports, bootstrap_room: rooms } = ask.body;
  if (rooms === undefined || rooms === null) {
    throw new Refusal(400, "Invalid request: Disaggregated request received without bootstrap room id.");
  }
  if (!Array.isArray(rooms)) {
    if (ask.prompts.length > 1) {
      throw new Refusal(400, "A batch needs lists for bootstrap_host, bootstrap_port and bootstrap_room.");
    }
    return [readAddress(hosts, ports, rooms)];
  }
  const count = ask.prompts.length;
  if (!Array.isArray(hosts) || !Array.isArray(ports)) {
    throw new Refusal(400, "bootstrap_host and bootstrap_port must be lists where bootstrap_room is one.");
  }
  for (const list of [hosts, ports, rooms]) {
    if (list.length !== count) {
      throw new Refusal(400, `Expected ${count} bootstrap entries for ${count} prompts, got ${list.length}.`);
    }
  }
  const addresses = rooms.map((room, at) => readAddress(hosts[at], ports[at], room));
  if (new Set(addresses.map((address) => address.room)).size !== count) {
    throw new Refusal(400, "bootstrap_room must be distinct within a batch.");
  }
  return addresses;
}

function readAddress(host: Json | undefined, port: Json | undefined, room: Json): RoomAddress {
  const digits = integerText(room);
  if (digits === undefined || BigInt(digits) < 0n || BigInt(digits) >= roomLimit) {
    throw new Refusal(400, "bootstrap_room must be an integer from 0 to 2^63 - 1.", "bootstrap_room");
  }
  if (typeof host !== "string" || host === "") {
    throw new Refusal(400, "bootstrap_host must be a string.", "bootstrap_host");
  }
  const number = numberOf(port);
  if (number === undefined || !Number.isInteger(number) || number < 1 || number > 65_535) {
    throw new Refusal(400, "bootstrap_port must be an integer from 1 to 65535.", "bootstrap_port");
  }
  return { host, port: number, room: BigInt(digits).toString() };
}
