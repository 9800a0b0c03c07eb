import { runScenarios } from "./run.ts";

runScenarios("node");
