/** A story that the model admits is never a mistake, however it travels; each of a set of mutations always is. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Arrival } from "../../../src/cli/check/arrival.ts";
import { judge } from "../../../src/cli/check/judge.ts";
import type { Mistake } from "../../../src/cli/check/mistake.ts";
import { toEventNotification as to2025, toResourceUpdate } from "../../../src/mcp/wire/2025-11-25.ts";
import { toEventNotification as to2026 } from "../../../src/mcp/wire/2026-07-28.ts";
import type { TidingsEvent } from "../../../src/model/event.ts";
import { toCloudEvent } from "../../../src/model/projection/cloud-event.ts";
import { toNested } from "../../../src/model/projection/nested.ts";
import { toFlat } from "../../../src/model/projection/notification.ts";
import { anyCommand, eventsOf, JOB_ID, play } from "../../model/generate.ts";
import { arrivalsOf, fullStories, MUTATIONS } from "./mutations.ts";

type Projection = (event: TidingsEvent) => object;

const PROJECTIONS: Readonly<Record<string, Projection>> = {
  "the canonical notification": (event) => ({ jsonrpc: "2.0", ...to2025({ event, cursor: "c" }) }),
  "a notification of 2026-07-28": (event) => ({
    jsonrpc: "2.0",
    ...to2026({ event, cursor: "c" }, "listen:1"),
  }),
  "an update of a resource": (event) => ({
    jsonrpc: "2.0",
    ...toResourceUpdate(`job://${JOB_ID}`, { event, cursor: "c" }),
  }),
  "the nested spelling": (event) => ({ jsonrpc: "2.0", ...toNested(event) }),
  "a bare event": (event) => toFlat(event, "c"),
  "a CloudEvent": (event) => toCloudEvent(event),
};

const projections = fc.constantFrom(...Object.keys(PROJECTIONS));

/** Any story: commands in no sensible order, as confused callers give them; what the model refuses is not in it. */
const stories = fc.array(anyCommand, { maxLength: 25 }).map((commands) => play(commands).events);

const mistakesIn = (arrivals: readonly Arrival[]): Mistake[] => [
  ...new Set(judge(arrivals).findings.map(({ mistake }) => mistake)),
];

describe("a story that the model admits", () => {
  it("is no mistake, in any projection, with any repeats after reconnects, on two streams", () => {
    const travels = fc.record({
      story: stories,
      first: projections,
      second: projections,
      cut: fc.nat(30),
      back: fc.nat(30),
      isTwice: fc.boolean(),
    });
    fc.assert(
      fc.property(travels, ({ story, first, second, cut, back, isTwice }) => {
        const project = (name: string, events: readonly TidingsEvent[]): object[] =>
          events.map((event) => (PROJECTIONS[name] as Projection)(event));
        const from = Math.max(0, cut - back);
        const arrivals = [
          ...arrivalsOf(project(first, story.slice(0, cut))),
          ...(isTwice ? arrivalsOf(project(second, story.slice(0, back)), 0, "other") : []),
          ...arrivalsOf(project(first, story.slice(from)), 1),
          ...arrivalsOf(project(first, story), 2),
        ];
        expect(judge(arrivals).findings).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it("is no mistake beside system events, logs and changes of resources", () => {
    const beside = fc
      .constantFrom(
        "system.log",
        "system.degraded",
        "system.restored",
        "resource.updated",
        "resource.list_changed",
      )
      .chain((type) => eventsOf(type as "system.log"))
      .map(({ jobId: _, seq: __, ...event }) => event as TidingsEvent);
    fc.assert(
      fc.property(fullStories, fc.array(beside, { maxLength: 6 }), projections, (story, others, name) => {
        const project = PROJECTIONS[name] as Projection;
        expect(judge(arrivalsOf([...others, ...story, ...others].map(project))).findings).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  it("gives the same verdict for the same record", () => {
    fc.assert(
      fc.property(fullStories, (story) => {
        const arrivals = arrivalsOf(story.map(PROJECTIONS["a bare event"] as Projection));
        expect(judge(arrivals)).toEqual(judge(arrivals));
      }),
      { numRuns: 50 },
    );
  });
});

describe("a story that somebody got wrong", () => {
  it.each(MUTATIONS)("is found out: $name", ({ mutate, mistake }) => {
    fc.assert(
      fc.property(fullStories, fc.nat(), (story, pick) => {
        expect(mistakesIn(mutate(story, pick))).toContain(mistake);
      }),
      { numRuns: 100 },
    );
  });
});

describe("what is no mistake although it looks like one", () => {
  const foreign = (method: string, params: object) => ({ jsonrpc: "2.0", method, params });
  const at = (second: number) => ({ timestamp: `2026-11-30T10:00:0${second}Z`, eventId: `e${second}` });

  it.each([
    {
      name: "the steps of a job end one after another",
      messages: [
        foreign("notifications/job/started", { jobId: "j", ...at(1) }),
        foreign("notifications/step/completed", { jobId: "j", step: "read", percentage: 100, ...at(2) }),
        foreign("notifications/step/started", { jobId: "j", step: "write", percentage: 0, ...at(3) }),
        foreign("notifications/step/completed", { jobId: "j", step: "write", percentage: 100, ...at(4) }),
        foreign("notifications/job/completed", { jobId: "j", ...at(5) }),
      ],
    },
    {
      name: "a task's status is told again, without an id, as the standard has it",
      messages: ["working", "working", "input_required", "working", "completed", "completed"].map((status) =>
        foreign("notifications/tasks", { taskId: "t", status, lastUpdatedAt: "2026-11-30T10:00:00Z" }),
      ),
    },
    {
      name: "log lines speak of a job whose events are told as events",
      messages: [
        foreign("notifications/job/started", { jobId: "j", ...at(1) }),
        foreign("notifications/message", { level: "info", data: "job j: started, 0 % done" }),
        foreign("notifications/job/completed", { jobId: "j", ...at(2) }),
      ],
    },
    {
      name: "the same value is reported again after a reconnect",
      messages: [foreign("notifications/job/progress", { jobId: "j", percentage: 40, ...at(1) })],
      again: [foreign("notifications/job/progress", { jobId: "j", percentage: 40, ...at(2) })],
    },
    {
      name: "a job is retried and starts again",
      messages: [
        foreign("notifications/job/started", { jobId: "j", ...at(1) }),
        foreign("notifications/job/retrying", { jobId: "j", attempt: 1, ...at(2) }),
        foreign("notifications/job/started", { jobId: "j", ...at(3) }),
        foreign("notifications/job/failed", { jobId: "j", ...at(4) }),
      ],
    },
    {
      name: "progress of a task-augmented call goes on after the answer (2025-11-25)",
      messages: [
        {
          jsonrpc: "2.0",
          id: 1,
          method: "tools/call",
          params: { name: "x", task: {}, _meta: { progressToken: 1 } },
        },
        { jsonrpc: "2.0", id: 1, result: { task: { taskId: "t", status: "working" } } },
        foreign("notifications/progress", { progressToken: 1, progress: 3 }),
      ],
    },
  ])("$name", ({ messages, again = [] }) => {
    expect(judge([...arrivalsOf(messages), ...arrivalsOf(again, 1)]).findings).toEqual([]);
  });
});
