import type { PolicyName } from "../../config/policies.ts";
import type { Policy } from "../policy.ts";
import { ConsistentHash } from "./consistent-hash.ts";
import { LeastLoad } from "./least-load.ts";
import { PowerOfTwo } from "./power-of-two.ts";
import { PrefixAware } from "./prefix-aware.ts";
import { RandomChoice } from "./random.ts";
import { RoundRobin } from "./round-robin.ts";

/** What policies need from outside. Both are asked at choice time only: on Workers there is no randomness outside of requests. */
export interface PolicyPorts {
  /** Monotonic milliseconds. */
  now(): number;
  /** Uniform in [0, 1). */
  random(): number;
}

/** A new policy for one role of one pool, by its configured name. */
export function createPolicy(name: PolicyName, ports: PolicyPorts): Policy {
  switch (name) {
    case "round-robin":
      return new RoundRobin();
    case "random":
      return new RandomChoice(ports.random);
    case "power-of-two":
      return new PowerOfTwo(ports.random);
    case "least-load":
      return new LeastLoad();
    case "prefix-aware":
      return new PrefixAware(ports);
    case "consistent-hash":
      return new ConsistentHash();
  }
}
