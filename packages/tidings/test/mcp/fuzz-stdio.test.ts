import { expect, test } from "vitest";
import { fuzzStdio } from "../../../../scripts/torture-fuzz-stdio.ts";

/** The short form of `npm run torture -- --only stdio`. */
test("security 18, 19, 20: malformed lines are never a crash or a RangeError, and stdout carries only JSON-RPC", async () => {
  const report = await fuzzStdio({ messages: 3_000, seed: 1 });
  expect(report.problems, `seed ${report.seed}`).toEqual([]);
  expect(report.exitCodes).toEqual([0, 0, 0]);
  expect(report.answers.result).toBeGreaterThan(100);
  expect(report.answers["-32602"]).toBeGreaterThan(10);
}, 120_000);
