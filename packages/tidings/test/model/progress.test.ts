import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Command } from "../../src/model/command.ts";
import type { Stage } from "../../src/model/progress.ts";
import {
  boundariesBetween,
  ETA_EVIDENCE,
  estimateEta,
  percentageAt,
  readStages,
  reportsFor,
} from "../../src/model/progress.ts";
import { isProgress, newborn, play } from "./generate.ts";

const GIFTS = readStages({ parse: 10, extract_interests: 40, match: 70, assemble: 100 }, "gifts");

const stageLists = fc
  .uniqueArray(fc.integer({ min: 1, max: 99 }), { maxLength: 6 })
  .map((ends) => [...ends.toSorted((a, b) => a - b), 100])
  .map((ends) => readStages(Object.fromEntries(ends.map((end, index) => [`stage_${index}`, end])), "job"));

const fractions = fc.oneof(
  fc.double({ min: -1, max: 2, noNaN: true }),
  fc.constantFrom(0, 0.999999, 1, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
);

/** What a handler says: stages in any order, skipped, repeated, with fractions that make no sense. */
const handlers = stageLists.chain((stages) =>
  fc.tuple(
    fc.constant(stages),
    fc.array(fc.tuple(fc.constantFrom(...stages.map((stage) => stage.key)), fractions), { maxLength: 30 }),
  ),
);

const error = { code: "SOURCE_TIMEOUT", message: "No answer.", retryable: true };

/** Attempts of a job whose handler says these things in each, until the last one completes it. */
function run(stages: readonly Stage[], attempts: readonly (readonly (readonly [string, number])[])[]) {
  let story = newborn();
  const give = (command: Command) => {
    story = play([command], story);
  };
  for (const [index, said] of attempts.entries()) {
    give({ type: "start" });
    for (const [key, fraction] of said) {
      give({ type: "progress", reports: reportsFor(stages, story.job.percentage, key, fraction) });
    }
    if (index < attempts.length - 1) give({ type: "retry", error, delayMs: 0 });
  }
  const reports = boundariesBetween(stages, story.job.percentage, 100);
  give({ type: "complete", resultResourceId: "job://job_1/result", reports });
  return story;
}

describe("the boundaries of stages", () => {
  test("are each reported exactly once, also when the handler skips stages", () => {
    fc.assert(
      fc.property(handlers, ([stages, said]) => {
        const shown = run(stages, [said]).events.filter(isProgress);
        for (const { end, key } of stages) {
          expect(shown.filter((event) => event.percentage === end)).toMatchObject([{ stageKey: key }]);
        }
      }),
    );
  });

  test("are each reported exactly once, also when a second attempt begins again", () => {
    fc.assert(
      fc.property(handlers, ([stages, said]) => {
        const shown = run(stages, [said, said, said.toReversed()]).events.filter(isProgress);
        for (const { end } of stages)
          expect(shown.filter((event) => event.percentage === end)).toHaveLength(1);
      }),
    );
  });

  test("of GiftGenius are 10, 40, 70 and 100 even when the handler says nothing", () => {
    expect(
      run(GIFTS, [[]])
        .events.filter(isProgress)
        .map((event) => [event.percentage, event.stageKey]),
    ).toEqual([
      [10, "parse"],
      [40, "extract_interests"],
      [70, "match"],
      [100, "assemble"],
    ]);
  });

  test("are never reached before the stage is really done", () => {
    fc.assert(
      fc.property(
        stageLists,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (stages, fraction) => {
          for (const stage of stages) {
            expect(percentageAt(stage, fraction)).toBeLessThan(stage.end);
            expect(percentageAt(stage, fraction)).toBeGreaterThanOrEqual(stage.start);
            expect(percentageAt(stage, 1)).toBe(stage.end);
          }
        },
      ),
    );
  });
});

describe("the reports of a handler", () => {
  test("strictly rise, are finite and stay within 0 to 100, also over several attempts", () => {
    fc.assert(
      fc.property(handlers, ([stages, said]) => {
        let last = 0;
        for (const { percentage } of run(stages, [said, said]).events.filter(isProgress)) {
          expect(Number.isFinite(percentage)).toBe(true);
          expect(percentage).toBeGreaterThan(last);
          expect(percentage).toBeLessThanOrEqual(100);
          last = percentage;
        }
        expect(last).toBe(100);
      }),
    );
  });

  test("name the skipped boundaries before the place itself", () => {
    expect(reportsFor(GIFTS, 5, "match", 0.5).map((report) => report.percentage)).toEqual([10, 40, 55]);
  });

  test("are none when nothing rises", () => {
    expect(reportsFor(GIFTS, 55, "match", 0.5)).toEqual([]);
    expect(reportsFor(GIFTS, 70, "parse", 1)).toEqual([]);
  });

  test("carry a text for people beside the stable key", () => {
    expect(reportsFor(GIFTS, 10, "extract_interests", 1)).toEqual([
      { percentage: 40, stage: "Extract interests", stageKey: "extract_interests" },
    ]);
    const stages = readStages({ parse: { end: 100, label: "Reading the file" } }, "job");
    expect(reportsFor(stages, 0, "parse", 1)).toMatchObject([{ stage: "Reading the file" }]);
  });

  test("of a stage that does not exist are a mistake in the program", () => {
    expect(() => reportsFor(GIFTS, 0, "mtach", 1)).toThrow(
      /names no stage; this job has parse, extract_interests/,
    );
  });
});

describe("a list of stages", () => {
  test.each([
    ["does not rise", { a: 50, b: 50, c: 100 }],
    ["falls", { a: 50, b: 40, c: 100 }],
    ["does not reach 100", { a: 50 }],
    ["is empty", {}],
    ["goes above 100", { a: 101 }],
    ["begins at 0", { a: 0, b: 100 }],
    ["is not a number", { a: Number.NaN, b: 100 }],
  ])("that %s is refused", (_, spec) => {
    expect(() => readStages(spec, "job")).toThrow(expect.objectContaining({ code: "BAD_DEFINITION" }));
  });

  test("may be left out", () => {
    expect(readStages(undefined, "job")).toEqual([{ key: "work", label: "Work", start: 0, end: 100 }]);
  });
});

describe("an estimate of the time that remains", () => {
  const begun = { startedAtMs: 0, startedAtPercentage: 0 };

  test("needs evidence: enough time and enough progress", () => {
    const { elapsedMs, points } = ETA_EVIDENCE;
    expect(estimateEta(begun, 50, elapsedMs - 1).etaSeconds).toBeUndefined();
    expect(estimateEta(begun, points - 0.1, 60_000).etaSeconds).toBeUndefined();
    expect(estimateEta(begun, points, elapsedMs).etaSeconds).toBeTypeOf("number");
  });

  test("follows the pace of this attempt, not of the one before", () => {
    const resumed = { startedAtMs: 100_000, startedAtPercentage: 60 };
    expect(estimateEta(resumed, 80, 110_000).etaSeconds).toBe(10);
  });

  test("is smoothed, so that one slow step does not make it jump", () => {
    const first = estimateEta(begun, 10, 10_000);
    expect(first.etaSeconds).toBe(90);
    const slow = estimateEta(first.estimate, 11, 30_000).etaSeconds ?? 0;
    expect(slow).toBeGreaterThan(90);
    expect(slow).toBeLessThan((30 / 11) * 89);
  });

  test("is a whole number of seconds from 1 on, and is absent at the end", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 100, noNaN: true }),
        fc.integer({ min: 0, max: 10 ** 9 }),
        (percentage, nowMs) => {
          const { etaSeconds } = estimateEta(begun, percentage, nowMs);
          if (etaSeconds === undefined) return;
          expect(Number.isInteger(etaSeconds) && etaSeconds >= 1).toBe(true);
          expect(percentage).toBeLessThan(100);
        },
      ),
    );
  });

  test("does not come from a clock that was set back", () => {
    expect(
      estimateEta({ startedAtMs: 50_000, startedAtPercentage: 0 }, 50, 10_000).etaSeconds,
    ).toBeUndefined();
  });
});
