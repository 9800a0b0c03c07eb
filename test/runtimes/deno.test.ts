import { runScenarios } from "./run.ts";

runScenarios("deno");
