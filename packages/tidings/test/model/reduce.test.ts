import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { TidingsEvent } from "../../src/model/event.ts";
import type { Job } from "../../src/model/job.ts";
import { hasEnded } from "../../src/model/job.ts";
import { reduce } from "../../src/model/reduce.ts";
import { AT, anyCommand, anyEvent, JOB_ID, newborn, play } from "./generate.ts";

const stories = fc.array(anyCommand, { maxLength: 40 }).map((commands) => play(commands));
const fold = (events: readonly TidingsEvent[], job?: Job) =>
  events.reduce<Job | undefined>((folded, event) => reduce(folded, event), job);

/** A story whose events arrive several times, each repeat somewhere after its first arrival. */
const deliveries = stories.chain((story) =>
  fc.tuple(
    fc.constant(story),
    fc.array(fc.tuple(fc.nat(story.events.length - 1), fc.nat(story.events.length)), { maxLength: 30 }),
  ),
);

function withRepeats(events: readonly TidingsEvent[], repeats: readonly (readonly [number, number])[]) {
  return events.flatMap((event, index) => [
    event,
    ...repeats
      .filter(([which, after]) => which <= index && after === index)
      .map(([which]) => events[which] as TidingsEvent),
  ]);
}

describe("folding events into a job", () => {
  test("gives the reader the job that the store holds", () => {
    fc.assert(
      fc.property(stories, ({ job, events }) => {
        expect(fold(events)).toEqual(job);
      }),
    );
  });

  test("once or ten times leaves the same state", () => {
    fc.assert(
      fc.property(deliveries, ({ 0: { job, events }, 1: repeats }) => {
        expect(fold(withRepeats(events, repeats))).toEqual(job);
        expect(fold(Array.from({ length: 10 }, () => events).flat())).toEqual(job);
      }),
    );
  });

  test("a repeat gives back the very same object, so that nothing is painted again", () => {
    fc.assert(
      fc.property(stories, ({ job, events }) => {
        for (const event of events) expect(reduce(job, event)).toBe(job);
      }),
    );
  });

  test("never lets the percentage fall, whatever arrives", () => {
    fc.assert(
      fc.property(stories, fc.array(anyEvent, { maxLength: 30 }), ({ job }, strangers) => {
        let shown = job;
        for (const event of strangers) {
          const next = reduce(shown, { ...event, jobId: JOB_ID } as TidingsEvent);
          expect(next.percentage).toBeGreaterThanOrEqual(shown.percentage);
          shown = next;
        }
      }),
    );
  });

  test("never changes a terminal state, whatever arrives", () => {
    fc.assert(
      fc.property(stories, fc.array(anyEvent, { maxLength: 30 }), ({ job }, strangers) => {
        fc.pre(hasEnded(job.status));
        const { seq: _, updatedAt: __, ...ending } = job;
        const after = fold(
          strangers.map((event) => ({ ...event, jobId: JOB_ID }) as TidingsEvent),
          job,
        );
        expect(after).toMatchObject(ending);
      }),
    );
  });

  test("a reader that joins late shows what the event says", () => {
    const { events } = play([
      { type: "start" },
      { type: "progress", reports: [{ percentage: 40, stage: "Matching", stageKey: "match" }] },
    ]);
    expect(fold(events.slice(2))).toMatchObject({ status: "running", percentage: 40, stageKey: "match" });
  });

  test("an event of another job changes nothing", () => {
    const { job } = newborn();
    const { events } = play([{ type: "start" }]);
    expect(reduce(job, { ...(events[1] as TidingsEvent), jobId: "job_2" })).toBe(job);
  });

  test("a system event without a job changes nothing", () => {
    const { job } = newborn();
    const log = {
      eventId: "e",
      type: "system.log",
      timestamp: AT,
      source: "x",
      level: "info",
      message: "done",
    };
    expect(reduce(job, log as TidingsEvent)).toBe(job);
  });

  test("a system event about a job never changes its state", () => {
    const { job } = play([{ type: "start" }]);
    const degraded = {
      eventId: "e",
      type: "system.degraded",
      timestamp: AT,
      jobId: JOB_ID,
      seq: 3,
      source: "catalog",
      message: "Slow.",
      since: AT,
    } as TidingsEvent;
    expect(reduce(job, degraded)).toEqual({ ...job, seq: 3 });
  });

  test("progress stays where it was when a second attempt begins", () => {
    const error = { code: "SOURCE_TIMEOUT", message: "No answer.", retryable: true };
    const { job } = play([
      { type: "start" },
      {
        type: "progress",
        reports: [{ percentage: 70, stage: "Matching", stageKey: "match", etaSeconds: 9 }],
      },
      { type: "retry", error, delayMs: 0 },
      { type: "start" },
    ]);
    expect(job).toMatchObject({ status: "running", percentage: 70, attempt: 2, failures: 1 });
    expect(job.error).toBeUndefined();
    expect(job.etaSeconds).toBeUndefined();
  });

  test("an attempt that a planned shutdown handed back does not count as failed", () => {
    const stopped = { code: "WORKER_STOPPED", message: "The server stops.", retryable: true };
    const { job } = play([{ type: "start" }, { type: "retry", error: stopped, delayMs: 0 }]);
    expect(job).toMatchObject({ status: "pending", failures: 0, attempt: 1 });
  });

  test("an ended job keeps no estimate", () => {
    fc.assert(
      fc.property(stories, ({ job }) => {
        if (hasEnded(job.status)) expect(job).not.toHaveProperty("etaSeconds");
      }),
    );
  });

  test("an event leaves alone whatever field of the job it says nothing of", () => {
    const job: Required<Job> = {
      jobId: JOB_ID,
      jobType: "work",
      status: "running",
      percentage: 10,
      stage: "Reading",
      stageKey: "read",
      etaSeconds: 5,
      attempt: 2,
      failures: 1,
      createdAt: AT,
      startedAt: AT,
      endedAt: AT,
      updatedAt: AT,
      summary: "a summary",
      resultResourceId: "job://job_1/result",
      error: { code: "WORKER_LOST", message: "It went away.", retryable: true },
      canceledBy: "user",
      reason: "a reason",
      retryOf: "job_0",
      correlationId: "run_1",
      seq: 4,
    };
    const log = { eventId: "evt_1", type: "system.log", timestamp: AT, jobId: JOB_ID, seq: 5 };
    expect(reduce(job, log as TidingsEvent)).toStrictEqual({ ...job, seq: 5 });
  });
});
