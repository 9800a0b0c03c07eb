import { runScenarios } from "./run.ts";

runScenarios("workerd");
