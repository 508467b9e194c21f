import { expect, test } from "vitest";
import { fuzzHttp } from "../../../../scripts/torture-fuzz-http.ts";

/** The short form of `npm run torture -- --only http`. */
test("security 18, 19, 24: malformed HTTP is never a crash, a 5xx or a RangeError, and honest clients go on", async () => {
  const report = await fuzzHttp({ messages: 3_000, seed: 1 });
  expect(report.problems, `seed ${report.seed}`).toEqual([]);
  expect(report.exitCode).toBe(0);
  // Some got through, most did not.
  expect(report.answers["200"]).toBeGreaterThan(100);
  expect(report.answers["400"]).toBeGreaterThan(100);
}, 120_000);
