import { runScenarios } from "./run.ts";

runScenarios("bun");
