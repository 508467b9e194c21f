import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { create, decide, eventIdOf } from "../../src/model/decide.ts";
import type { EventOf, TidingsEvent } from "../../src/model/event.ts";
import { hasEnded } from "../../src/model/job.ts";
import { readEvent } from "../../src/model/projection/read.ts";
import { reduce } from "../../src/model/reduce.ts";
import { AT, anyCommand, isProgress, JOB_ID, newborn, play } from "./generate.ts";

const stories = fc.array(anyCommand, { maxLength: 40 }).map((commands) => play(commands));
const TERMINAL = ["job.completed", "job.failed", "job.canceled"];
const TRANSITIONS = [
  ...TERMINAL,
  "job.created",
  "job.started",
  "job.progress",
  "job.retrying",
  "job.partial",
];

const start = { type: "start" } as const;
const informing = {
  type: "inform",
  events: [
    { type: "job.partial", added: 1, resultResourceId: "job://job_1/result", cursor: "p1" },
    { type: "resource.updated", resourceId: "resource:product-feed", changeType: "snapshot_ready" },
  ],
} as const;

describe("whatever commands a job is given, in whatever order", () => {
  test("it has at most one terminal event", () => {
    fc.assert(
      fc.property(stories, ({ events }) => {
        expect(events.filter((event) => TERMINAL.includes(event.type)).length).toBeLessThanOrEqual(1);
      }),
    );
  });

  test("nothing but informational events follows its end", () => {
    fc.assert(
      fc.property(stories, ({ events }) => {
        const end = events.findIndex((event) => TERMINAL.includes(event.type));
        const after = end < 0 ? [] : events.slice(end + 1);
        expect(after.filter((event) => TRANSITIONS.includes(event.type))).toEqual([]);
      }),
    );
  });

  test("its events are numbered from 1 without a gap, each with an id of its own", () => {
    fc.assert(
      fc.property(stories, ({ job, events }) => {
        expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
        expect(new Set(events.map((event) => event.eventId)).size).toBe(events.length);
        expect(job.seq).toBe(events.length);
      }),
    );
  });

  test("its percentages are finite, within 0 to 100, and strictly rise", () => {
    fc.assert(
      fc.property(stories, ({ events }) => {
        let shown = 0;
        for (const { percentage } of events.filter(isProgress)) {
          expect(Number.isFinite(percentage) && percentage <= 100).toBe(true);
          expect(percentage).toBeGreaterThan(shown);
          shown = percentage;
        }
      }),
    );
  });

  test("every event it writes is one that the reader accepts", () => {
    fc.assert(
      fc.property(stories, ({ events }) => {
        for (const event of events) {
          const throughWire = JSON.parse(JSON.stringify(event));
          expect(readEvent(throughWire)).toEqual({ kind: "event", event: throughWire });
        }
      }),
    );
  });

  test("a refused command leaves it untouched", () => {
    fc.assert(
      fc.property(stories, anyCommand, ({ job }, command) => {
        const before = structuredClone(job);
        decide(job, command, AT);
        expect(job).toEqual(before);
      }),
    );
  });

  test("the same command at the same time gives the same events", () => {
    fc.assert(
      fc.property(stories, anyCommand, ({ job }, command) => {
        expect(decide(job, command, AT)).toEqual(decide(job, command, AT));
      }),
    );
  });
});

describe("the events of a decision", () => {
  test("repeat the correlation id of the job", () => {
    const event = create({ jobId: JOB_ID, jobType: "work", correlationId: "run-7" }, AT);
    const job = reduce(undefined, event);
    if (job === undefined) throw new Error("no job was born");
    const { events } = play([start, informing], { job, events: [event] });
    expect(events.map((each) => each.correlationId)).toEqual(events.map(() => "run-7"));
  });

  test("have ids that follow from the job and the place in its story", () => {
    expect(newborn().events[0]?.eventId).toBe(eventIdOf(JOB_ID, 1));
    expect(eventIdOf("bulk_x", 12)).toBe("evt_bulk_x_12");
  });

  test("never run backwards in time when somebody sets the clock back", () => {
    const { job } = newborn();
    const decision = decide(job, start, "2020-01-01T00:00:00.000Z");
    expect(decision).toMatchObject({ events: [{ type: "job.started", timestamp: AT }] });
  });

  test("leave out optional fields instead of writing undefined", () => {
    const { events } = play([start, { type: "cancel", canceledBy: "user" }]);
    for (const event of events) expect(Object.values(event)).not.toContain(undefined);
  });

  test("count attempts, and give the delay of a retry in seconds", () => {
    const error = { code: "SOURCE_TIMEOUT", message: "No answer.", retryable: true };
    const { events } = play([start, { type: "retry", error, delayMs: 1_500 }, start]);
    expect(events.slice(1)).toMatchObject([
      { type: "job.started", attempt: 1 },
      { type: "job.retrying", attempt: 1, delaySeconds: 1.5, error },
      { type: "job.started", attempt: 2 },
    ]);
  });

  test("complete a job with the boundaries that were not reported yet", () => {
    const reports = [10, 40, 100].map((percentage) => ({ percentage, stage: "S", stageKey: "s" }));
    const { events } = play([
      start,
      { type: "progress", reports: reports.slice(0, 1) },
      { type: "complete", resultResourceId: "job://job_1/result", reports },
    ]);
    expect(events.filter(isProgress).map((event) => event.percentage)).toEqual([10, 40, 100]);
    expect(events.at(-1)?.type).toBe("job.completed");
  });

  test("after the end hold resources and logs, but no further results", () => {
    const { job } = play([start, { type: "cancel", canceledBy: "user" }]);
    expect(hasEnded(job.status)).toBe(true);
    expect(decide(job, informing, AT)).toMatchObject({ events: [{ type: "resource.updated" }] });
  });

  test("of a type of one's own carry no trace of how they were made", () => {
    const draft = { type: "order.paid", "~custom": true, paymentId: "p1" } as const;
    const { events } = play([start, { type: "inform", events: [draft] }]);
    expect(Object.keys(events.at(-1) as TidingsEvent)).toEqual([
      "eventId",
      "type",
      "timestamp",
      "jobId",
      "seq",
      "paymentId",
    ]);
  });

  test("of a type of one's own keep a field named __proto__ as a mere field", () => {
    const events = [JSON.parse('{"type":"order.paid","orderId":"o1","__proto__":{"isAdmin":true}}')];
    const decision = decide(newborn().job, { type: "inform", events }, AT);
    const [event] = "events" in decision ? decision.events : [];
    expect(Object.getPrototypeOf(event)).toBe(Object.prototype);
    expect(JSON.stringify(event)).toContain('"__proto__":{"isAdmin":true}');
  });

  test("of a failure carry the error with its hint", () => {
    const error = {
      code: "NO_EMAIL_COLUMN",
      message: "No column holds e-mail addresses.",
      hint: "Add one.",
      retryable: false,
    };
    const { job, events } = play([start, { type: "fail", error }]);
    expect((events.at(-1) as EventOf<"job.failed">).error).toEqual(error);
    expect(job.error).toEqual(error);
  });
});
