import { expect } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { type Script, type Step, silentScript } from "../../../src/simulator/script.ts";
import { context, DONE, delta, failing, handedOff, json, prefilled, role, stream, whole, words } from "../answers.ts";
import type { Scenario } from "../scenario.ts";
import { textOf } from "./answers.ts";

/** The same answer, as an engine behind a proxy that compresses whatever comes would give it. */
function packedAs(coding: string, pack: (bytes: Buffer) => Uint8Array, script: Script): Script {
  const steps = script.steps as readonly Step[];
  const bytes = pack(Buffer.concat(steps.map((step) => Buffer.from(step.bytes as string))));
  const headers = script.headers.filter(([name]) => name !== "content-length");
  return { ...script, headers: [...headers, ["content-encoding", coding]], steps: [{ bytes }] };
}

/** What stays as the client sent it, what is taken out, what passes in headers. */
export const rewriting: Scenario[] = [
  ...(
    [
      ["gzip", gzipSync],
      ["x-gzip", gzipSync],
      ["deflate", deflateSync],
      ["br", brotliCompressSync],
    ] as const
  ).map(
    ([coding, pack]): Scenario => ({
      name: `answers that come as ${coding} although nobody asked are unpacked: whole, streamed, refusals, on both legs`,
      async run({ ask }) {
        const sent = [role(), delta("x".repeat(100_000)), delta("grün"), delta("", "stop"), DONE];
        const packed = { "sg-p": packedAs(coding, pack, prefilled()), "sg-d": packedAs(coding, pack, stream(sent)) };
        const streamed = await ask("sg", packed).answer.done();
        expect([streamed.status, streamed.text, streamed.ending]).toEqual([200, sent.join(""), "clean"]);
        const text = whole("grün", "stop");
        const plays = { "sg-p": packedAs(coding, pack, prefilled()), "sg-d": packedAs(coding, pack, json(text)) };
        const buffered = await ask("sg", plays, { stream: false }).answer.done();
        expect([buffered.status, buffered.text]).toEqual([200, text]);
        const refusing = { "sg-p": prefilled(), "sg-d": packedAs(coding, pack, failing(400, "too grün")) };
        const refused = await ask("sg", refusing).answer.done();
        expect([refused.status, refused.error.message]).toEqual([400, "too grün"]);
      },
    }),
  ),
  {
    name: "an answer in a coding that the runtime does not know is an error that names it",
    // They know all that is in use.
    except: ["bun", "node"],
    async run({ ask }) {
      for (const coding of ["zstd", "gzip, zstd"]) {
        const packed = packedAs(coding, zstdCompressSync, json(whole("x", "stop")));
        const decode = await ask("sg", { "sg-p": prefilled(), "sg-d": packed }, { stream: false }).answer.done();
        expect([decode.status, decode.error.code]).toEqual([502, "decode_failed"]);
        expect(decode.error.message).toContain(coding);
        const prefill = await ask(
          "sg",
          { "sg-p": packed, "sg-d": silentScript("hang") },
          { stream: false },
        ).answer.done();
        expect([prefill.status, prefill.error.code]).toEqual([502, "prefill_failed"]);
        expect(prefill.error.message).toContain(coding);
      }
    },
  },
  {
    name: "integers beyond 2^53, escapes and key order reach both legs as they were sent",
    async run({ ask }) {
      const more = { seed: "9223372036854775807", zeta: '"\\u00e9\\/"', user: "12345678901234567890", alpha: "1.0" };
      const { answer, seen } = ask(
        "vl",
        { "vl-p": handedOff(), "vl-d": json(whole("a", "stop")) },
        { stream: false, more },
      );
      await answer.done();
      const part = '"seed":9223372036854775807,"zeta":"\\u00e9\\/","user":12345678901234567890,"alpha":1.0';
      for (const leg of seen()) expect(leg.body).toContain(part);
      expect(seen()).toHaveLength(2);
    },
  },
  {
    name: "members the router owns are taken out of a client's body",
    async run({ ask }) {
      const more = { bootstrap_room: "1", kv_transfer_params: '{"do_remote_prefill":true}', rid: '"mine"' };
      const { answer, seen } = ask(
        "vl",
        { "vl-p": handedOff(), "vl-d": json(whole("a", "stop")) },
        { stream: false, more },
      );
      await answer.done();
      expect(answer.status).toBe(200);
      for (const leg of seen()) expect(leg.body).not.toMatch(/bootstrap_room|"rid"/);
      expect(seen("vl-d")[0]!.body.match(/"kv_transfer_params"/g)).toHaveLength(1);
    },
  },
  {
    name: "headers: an id for the client, no hop-by-hop headers, cookies or router hints to engines, identity encoding",
    async run({ ask }) {
      const headers = {
        "x-request-id": "my-id-1",
        cookie: "a=b",
        "accept-encoding": "gzip, br",
        "x-router-debug": "1",
        "x-prefiller-url": "http://127.0.0.1:1",
        connection: "x-secret-hop",
        "x-secret-hop": "1",
        "x-custom": "kept",
      };
      const { answer, seen } = ask("sg", { "sg-p": prefilled(), "sg-d": words("a") }, { headers });
      await answer.done();
      expect(answer.headers.get("x-request-id")).toBe("my-id-1");
      for (const leg of seen()) {
        expect(leg.headers.get("accept-encoding")).toBe("identity");
        expect(leg.headers.get("x-custom")).toBe("kept");
        for (const name of ["cookie", "x-router-debug", "x-prefiller-url", "x-secret-hop"]) {
          expect(leg.headers.get(name)).toBeNull();
        }
        expect(leg.headers.get("x-request-id")).not.toBe("my-id-1");
        expect(leg.headers.get("content-type")).toStartWith("application/json");
      }
      expect(seen()).toHaveLength(2);
    },
  },
  {
    name: "no platform compresses or gathers a stream: the next event is sent only when the client has seen the last (B31)",
    async run({ ask }) {
      const headers = { "accept-encoding": "gzip, br" };
      const inStep = [0, 1, 2, 3, 4].flatMap((i) => [delta(`w${i} `), () => answer.saw(`w${i} `)]);
      const { answer } = ask(
        "sg",
        { "sg-p": prefilled(), "sg-d": stream([role(), ...inStep, delta("", "stop"), DONE]) },
        { headers },
      );
      await answer.done();
      expect(answer.headers.get("content-encoding") ?? "identity").toBe("identity");
      expect(textOf(answer.events)).toBe("w0 w1 w2 w3 w4 ");
    },
  },
  {
    name: "redirects of engines are not followed",
    async run({ ask }) {
      const redirect = {
        ...json("{}"),
        status: 307,
        headers: [
          ["location", "http://127.0.0.1:9/x"],
          ["content-length", "2"],
        ],
      } as const;
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": redirect }, { stream: false });
      await answer.done();
      expect(answer.status).toBe(502);
      expect(answer.error.code).toBe("decode_failed");
    },
  },
  {
    name: "a body that comes in pieces, chunked and slowly, is read like any other",
    async run({ engines, plain }) {
      const { Exchange, sleep } = await import("../client.ts");
      const tag = engines.scenario({ "sg-p": prefilled(), "sg-d": json(whole("ok", "stop")) });
      const body = `{"model":"sg","messages":[{"role":"user","content":"${tag}"}]}`;
      const answer = new Exchange(plain, { headers: { "transfer-encoding": "chunked" }, raw: "" });
      for (let at = 0; at < body.length; at += 20) {
        const part = body.slice(at, at + 20);
        answer.write(`${part.length.toString(16)}\r\n${part}\r\n`);
        await sleep(10);
      }
      answer.write("0\r\n\r\n");
      await answer.done();
      expect([answer.status, answer.text]).toEqual([200, whole("ok", "stop")]);
    },
  },
  {
    name: "trtllm: what the client sees has no hand-off in it",
    async run({ ask }) {
      const { answer } = ask("tr", { "tr-p": context("stop") }, { stream: false });
      await answer.done();
      expect(answer.text).not.toMatch(/disaggregated_params|prompt_token_ids/);
      expect(answer.status).toBe(200);
    },
  },
];
