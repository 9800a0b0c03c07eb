/**
 * The engines of the bench, a process of its own: argument is a JSON list of groups. Commands come on stdin, one a line, each
 * answered by one line. They compute nothing and answer from prepared bytes; what they spend is said in the results.
 */
import type { EngineCommand, EngineGroup, Journal, Shape } from "../protocol.ts";
import { Engine } from "./engine.ts";
import { Wheel } from "./wheel.ts";

const FIRST: Shape = { tokens: 4, itlMs: 0, chunkBytes: 5 };

const journal: Journal = { failed: [], prefillOpened: [], decodeOpened: [], prefillClosed: [], decodeClosed: [] };
const wheel = new Wheel();
const groups = JSON.parse(process.argv[2] ?? "[]") as EngineGroup[];
const engines = groups.map((group) => new Engine(group, FIRST, wheel, journal));

function obey(command: EngineCommand): unknown {
  switch (command.do) {
    case "shape":
      for (const engine of engines) engine.setShape(command.shape);
      return {};
    case "stats":
      return engines.find(({ name }) => name === command.group)?.stats ?? {};
    case "journal":
      return {
        failed: journal.failed.splice(0),
        prefillOpened: journal.prefillOpened.splice(0),
        decodeOpened: journal.decodeOpened.splice(0),
        prefillClosed: journal.prefillClosed.splice(0),
        decodeClosed: journal.decodeClosed.splice(0),
      };
    case "finish": {
      let count = 0;
      for (const engine of engines) {
        for (const connection of engine.idle) connection.finish();
        count += engine.idle.size;
        engine.idle.clear();
      }
      return { count };
    }
  }
}

console.log("{}");
for await (const line of console) console.log(JSON.stringify(obey(JSON.parse(line) as EngineCommand)));
process.exit(0);
