import { expect, test } from "vitest";
import { tortureByKills } from "../../../../scripts/torture-kills.ts";

/** The short form of `npm run torture`. */
test("kill -9 of a server under load, ten times: nothing that a client was told is lost, changed or doubled", async () => {
  const report = await tortureByKills({ kills: 10, seed: 1 });
  expect(report.problems).toEqual([]);
  expect(report.kills).toBe(10);
  // It was under load indeed.
  expect(report.acknowledgedJobs).toBeGreaterThan(0);
  expect(report.acknowledgedJobs + report.seenEvents).toBeGreaterThanOrEqual(
    report.kills - report.killedWhileOpening,
  );
}, 120_000);
