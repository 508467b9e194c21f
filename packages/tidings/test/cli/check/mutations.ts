/** Stories, and what people do to them. */
import fc from "fast-check";
import type { Arrival } from "../../../src/cli/check/arrival.ts";
import type { Mistake } from "../../../src/cli/check/mistake.ts";
import { toEventNotification as to2025 } from "../../../src/mcp/wire/2025-11-25.ts";
import type { TidingsEvent } from "../../../src/model/event.ts";
import { methodOf } from "../../../src/model/event.ts";
import { isEndType } from "../../../src/model/job.ts";
import { isProgress, JOB_ID, play } from "../../model/generate.ts";

export function arrivalsOf(messages: readonly object[], leg = 0, stream = "stream"): Arrival[] {
  return messages.map((message, index) => {
    const text = JSON.stringify(message);
    return { message: JSON.parse(text), text, place: `message ${leg}.${index + 1}`, leg, stream };
  });
}

/** A story with a beginning, at least two reports, and an ending. */
export const fullStories = fc
  .tuple(
    fc.uniqueArray(fc.integer({ min: 1, max: 99 }), { minLength: 2, maxLength: 6 }),
    fc.constantFrom("complete", "fail", "cancel"),
  )
  .map(([percentages, end]) => {
    const error = { code: "SOURCE_TIMEOUT", message: "It went wrong.", retryable: false };
    const reports = percentages
      .sort((one, other) => one - other)
      .map((percentage) => ({ percentage, stage: `Working at ${percentage}`, stageKey: "work" }));
    return play([
      { type: "start" },
      ...reports.map((report) => ({ type: "progress", reports: [report] }) as const),
      end === "complete"
        ? { type: "complete", resultResourceId: `job://${JOB_ID}/result`, reports: [] }
        : end === "fail"
          ? { type: "fail", error }
          : { type: "cancel", canceledBy: "user" },
    ]).events;
  });

export interface Mutation {
  readonly name: string;
  readonly mistake: Mistake;
  /** @param pick - Any number, for a choice. */
  readonly mutate: (story: readonly TidingsEvent[], pick: number) => readonly Arrival[];
}

const canonical = (events: readonly object[], leg = 0): Arrival[] =>
  arrivalsOf(
    events.map((event) => ({
      jsonrpc: "2.0",
      method: methodOf((event as TidingsEvent).type),
      params: event,
    })),
    leg,
  );

/** Puts an event into a story after `index`, with a number and an id of its own. */
function withInserted(story: readonly TidingsEvent[], index: number, event: object): TidingsEvent[] {
  const all = [
    ...story.slice(0, index + 1),
    { ...event, eventId: "evt_inserted" } as TidingsEvent,
    ...story.slice(index + 1),
  ];
  return all.map((each, at) => ({ ...each, seq: at + 1 }) as TidingsEvent);
}

function without(event: TidingsEvent, ...names: string[]): object {
  return Object.fromEntries(Object.entries(event).filter(([name]) => !names.includes(name)));
}

const reportsIn = (story: readonly TidingsEvent[]): number[] =>
  story.flatMap((event, index) => (isProgress(event) ? [index] : []));

const ending = (story: readonly TidingsEvent[]): TidingsEvent =>
  story.find(({ type }) => isEndType(type)) as TidingsEvent;

export const MUTATIONS: readonly Mutation[] = [
  ...["eventId", "jobId", "timestamp"].map(
    (field): Mutation => ({
      name: `an event without ${field}`,
      mistake: "MISSING_IDS",
      mutate: (story, pick) =>
        canonical(story.map((event, at) => (at === pick % story.length ? without(event, field) : event))),
    }),
  ),
  {
    name: "a time that is none",
    mistake: "MISSING_IDS",
    mutate: (story, pick) =>
      canonical(
        story.map((event, at) => (at === pick % story.length ? { ...event, timestamp: "just now" } : event)),
      ),
  },
  {
    name: "one id on two events",
    mistake: "MISSING_IDS",
    mutate: (story) =>
      canonical(story.map((event, at) => (at === 2 ? { ...event, eventId: story[1]?.eventId } : event))),
  },
  {
    name: "the job's id under another name",
    mistake: "MISSING_IDS",
    mutate: (story) =>
      canonical(
        story.map((event, at) => (at === 1 ? { ...without(event, "jobId"), job_id: event.jobId } : event)),
      ),
  },
  {
    name: "progress that falls",
    mistake: "FALLING_PROGRESS",
    mutate: (story, pick) => {
      const reports = reportsIn(story);
      const at = reports[pick % reports.length] as number;
      return canonical(withInserted(story, at, { ...story[at], percentage: 0.5, stage: "Again" }));
    },
  },
  {
    name: "progress that falls, without numbers",
    mistake: "FALLING_PROGRESS",
    mutate: (story) => {
      const [first, second] = reportsIn(story) as [number, number];
      const swapped = story.map(
        (event, at) => story[at === first ? second : at === second ? first : at] ?? event,
      );
      return canonical(swapped.map((event) => without(event, "seq")));
    },
  },
  {
    name: "a second ending",
    mistake: "ILLEGAL_SEQUENCE",
    mutate: (story) =>
      canonical(withInserted(story, story.length - 1, { ...ending(story), summary: "Once more" })),
  },
  {
    name: "another ending",
    mistake: "ILLEGAL_SEQUENCE",
    mutate: (story) => {
      const type = ending(story).type === "job.failed" ? "job.completed" : "job.failed";
      const event = {
        ...without(ending(story), "type"),
        type,
        error: { code: "X", message: "x", retryable: false },
      };
      return canonical(withInserted(story, story.length - 1, event));
    },
  },
  {
    name: "progress after the end",
    mistake: "ILLEGAL_SEQUENCE",
    mutate: (story) => {
      const last = reportsIn(story).at(-1) as number;
      return canonical(
        withInserted(story, story.length - 1, { ...story[last], percentage: 100, stage: "Late" }),
      );
    },
  },
  {
    name: "a start in the middle of an attempt",
    mistake: "ILLEGAL_SEQUENCE",
    mutate: (story, pick) => {
      const reports = reportsIn(story);
      return canonical(withInserted(story, reports[pick % reports.length] as number, story[1] as object));
    },
  },
  {
    name: "a creation at last",
    mistake: "ILLEGAL_SEQUENCE",
    mutate: (story, pick) =>
      canonical(withInserted(story, 1 + (pick % (story.length - 2)), { ...story[0], summary: "Anew" })),
  },
  {
    name: "everything again under new ids",
    mistake: "UNRECOGNISABLE_REPEAT",
    mutate: (story) => [
      ...canonical(story),
      ...canonical(
        story.map((event) => ({ ...event, eventId: `again_${event.eventId}` })),
        1,
      ),
    ],
  },
  {
    name: "everything again under new ids and times, without numbers",
    mistake: "UNRECOGNISABLE_REPEAT",
    mutate: (story) => {
      const plain = story.map((event) => without(event, "seq"));
      const again = plain.map((event, at) => ({
        ...event,
        eventId: `n${at}`,
        timestamp: "2027-01-01T00:00:00.000Z",
      }));
      return [...canonical(plain), ...canonical(again, 1)];
    },
  },
  {
    name: "the ending again under a new id",
    mistake: "UNRECOGNISABLE_REPEAT",
    mutate: (story) => [...canonical(story), ...canonical([{ ...ending(story), eventId: "again" }], 1)],
  },
  {
    name: "a heartbeat that says how the job stands",
    mistake: "MIXED_EVENTS",
    mutate: (story) => {
      const beat = {
        eventId: "h",
        type: "system.heartbeat",
        timestamp: "2027-01-01T00:00:00.000Z",
        source: "worker",
      };
      return canonical([...story, { ...beat, jobId: JOB_ID, percentage: 50 }]);
    },
  },
  {
    name: "a job's event on the channel of log lines",
    mistake: "MIXED_EVENTS",
    mutate: (story, pick) =>
      arrivalsOf(
        story.map((event, at) => {
          const params = { level: "info", data: "x", _meta: { "dev.tidings/event": event } };
          return at === pick % story.length
            ? { jsonrpc: "2.0", method: "notifications/message", params }
            : { jsonrpc: "2.0", ...to2025({ event }) };
        }),
      ),
  },
  {
    name: "progress with the token of a call that was answered",
    mistake: "PROGRESS_AFTER_ANSWER",
    mutate: (story, pick) => {
      const token = pick % 2 === 0 ? 0 : "";
      const call = { method: "tools/call", params: { name: "start", _meta: { progressToken: token } } };
      return [
        ...arrivalsOf([
          { jsonrpc: "2.0", id: 7, ...call },
          { jsonrpc: "2.0", id: 7, result: { content: [], structuredContent: { jobId: JOB_ID } } },
        ]),
        ...canonical(story),
        ...arrivalsOf([
          { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: token, progress: 5 } },
        ]),
      ];
    },
  },
];
