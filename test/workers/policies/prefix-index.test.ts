import { describe, expect, test } from "bun:test";
import { PrefixIndex } from "../../../src/workers/policies/prefix-index.ts";
import { PromptBlocks } from "../../../src/workers/policies/prompt-blocks.ts";

function blocksOf(text: string): PromptBlocks {
  const blocks = new PromptBlocks();
  blocks.read(text, 3);
  return blocks;
}

/** A text of so many characters that shares nothing with another of a different salt. */
function textOf(salt: string, chars: number): string {
  return `${salt} `.repeat(Math.ceil(chars / (salt.length + 1))).slice(0, chars);
}

function found(index: PrefixIndex, text: string, now = 0): Record<number, number> {
  const holders = index.find(blocksOf(text), now);
  return Object.fromEntries(Array.from({ length: holders.count }, (_, n) => [holders.owners[n]!, holders.chars[n]!]));
}

describe("PrefixIndex", () => {
  test("knows how much of a prompt each owner has, deepest first", () => {
    const index = new PrefixIndex(1024, 1e6, 1e6);
    const talk = textOf("talk", 4096);
    index.remember(1, blocksOf(talk.slice(0, 1024)), 0);
    index.remember(2, blocksOf(talk), 0);
    expect(found(index, talk)).toEqual({ 2: 4096, 1: 1024 });
    expect(index.find(blocksOf(talk), 0).owners[0]).toBe(2);
    expect(found(index, textOf("other", 4096))).toEqual({});
  });

  test("says how much of a prompt its owner had already", () => {
    const index = new PrefixIndex(1024, 1e6, 1e6);
    const talk = textOf("talk", 2048);
    expect(index.remember(1, blocksOf(talk.slice(0, 1024)), 0)).toBe(0);
    expect(index.remember(1, blocksOf(talk), 0)).toBe(1024);
    expect(index.remember(1, blocksOf(talk), 0)).toBe(2048);
    expect(index.remember(2, blocksOf(talk), 0)).toBe(0);
  });

  test("a conversation is found although its system prompt was sent to everybody since", () => {
    const index = new PrefixIndex(4096, 1e6, 1e6);
    const system = textOf("system", 1024);
    const talk = system + textOf("mine", 1024);
    index.remember(1, blocksOf(talk), 0);
    for (let owner = 2; owner < 60; owner++) {
      index.remember(owner, blocksOf(system + textOf(`theirs ${owner}`, 512)), owner * 100);
    }
    const holders = found(index, talk, 10_000);
    expect(holders[1]).toBe(2048);
  });

  test("a block that everybody has does not push the others out of its bucket", () => {
    const index = new PrefixIndex(8, 1e6, 1e6);
    const mine = textOf("mine", 256);
    index.remember(1, blocksOf(mine), 0);
    for (let owner = 2; owner < 40; owner++) index.remember(owner, blocksOf(textOf("system", 256)), owner * 100);
    expect(found(index, mine, 5000)).toEqual({ 1: 256 });
    expect(Object.keys(found(index, textOf("system", 256), 5000))).toEqual(["36", "37", "38", "39"]);
  });

  test("forgets what was not used for the time to live", () => {
    const index = new PrefixIndex(1024, 1e6, 1000);
    const talk = textOf("talk", 1024);
    index.remember(1, blocksOf(talk), 0);
    expect(found(index, talk, 900)).toEqual({ 1: 1024 });
    expect(found(index, talk, 1200)).toEqual({});
  });

  test("forgets what its owner must have evicted, by what that owner was sent since, and nobody else's", () => {
    const index = new PrefixIndex(65_536, 10_000, 1e9);
    const talk = textOf("talk", 2048);
    index.remember(1, blocksOf(talk), 0);
    index.remember(2, blocksOf(talk), 0);
    for (let n = 0; n < 5; n++) index.remember(1, blocksOf(textOf(`new ${n}`, 2048)), 0);
    expect(found(index, talk)).toEqual({ 2: 2048 });
  });

  test("what is used again stays, as in the engine", () => {
    const index = new PrefixIndex(65_536, 10_000, 1e9);
    const talk = textOf("talk", 2048);
    index.remember(1, blocksOf(talk), 0);
    for (let n = 0; n < 20; n++) {
      expect(index.remember(1, blocksOf(talk), 0)).toBe(2048);
      index.remember(1, blocksOf(textOf(`new ${n}`, 2048)), 0);
    }
    expect(found(index, talk)).toEqual({ 1: 2048 });
  });

  test("an owner that is forgotten has nothing, even when its number is given to another", () => {
    const index = new PrefixIndex(1024, 1e6, 1e6);
    const talk = textOf("talk", 1024);
    index.remember(1, blocksOf(talk), 0);
    index.forget(1);
    expect(found(index, talk)).toEqual({});
    index.remember(1, blocksOf(textOf("other", 1024)), 0);
    expect(found(index, talk)).toEqual({});
  });

  test("its memory is fixed: far more prompts than it has room for do not make it grow, and the latest are known", () => {
    const index = new PrefixIndex(1024, 1e9, 1e9);
    const before = index.bytes;
    for (let n = 0; n < 5000; n++) index.remember(1 + (n % 8), blocksOf(textOf(`prompt ${n}`, 1024)), n * 100);
    expect(index.bytes).toBe(before);
    const known = Array.from({ length: 50 }, (_, n) => found(index, textOf(`prompt ${4950 + n}`, 1024), 500_000));
    expect(known.filter((holders) => Object.keys(holders).length > 0).length).toBeGreaterThan(45);
  });
});
