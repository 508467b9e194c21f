import { describe, expect, test } from "vitest";
import type { Command, CommandType, Refusal } from "../../src/model/command.ts";
import { COMMAND_OF, isRefusal, TRANSITIONS } from "../../src/model/command.ts";
import { decide } from "../../src/model/decide.ts";
import type { JobEventType } from "../../src/model/event.ts";
import { CATALOGUE } from "../../src/model/event.ts";
import type { Job, Status } from "../../src/model/job.ts";
import { hasEnded, STATUSES } from "../../src/model/job.ts";
import { reduce } from "../../src/model/reduce.ts";
import { AT, newborn, play } from "./generate.ts";

const error = { code: "SOURCE_TIMEOUT", message: "The source did not answer.", retryable: true };

const COMMANDS: Readonly<Record<CommandType, Command>> = {
  start: { type: "start" },
  progress: { type: "progress", reports: [{ percentage: 40, stage: "Working", stageKey: "work" }] },
  retry: { type: "retry", error, delayMs: 4_000 },
  complete: { type: "complete", resultResourceId: "job://job_1/result", reports: [] },
  fail: { type: "fail", error },
  cancel: { type: "cancel", canceledBy: "user" },
  inform: {
    type: "inform",
    events: [{ type: "resource.updated", resourceId: "resource:product-feed", changeType: "snapshot_ready" }],
  },
};

/** How a job gets into each status. */
const WAY: Readonly<Record<Status, readonly CommandType[]>> = {
  pending: [],
  running: ["start"],
  completed: ["start", "complete"],
  failed: ["start", "fail"],
  canceled: ["cancel"],
};

// The picture of job.ts as a table: what follows in each status, or why nothing does.
const TABLE = `
            | start               | progress        | retry           | complete        | fail            | cancel    | inform
 pending    | running             | JOB_NOT_STARTED | JOB_NOT_STARTED | JOB_NOT_STARTED | JOB_NOT_STARTED | canceled  | pending
 running    | JOB_ALREADY_RUNNING | running         | pending         | completed       | failed          | canceled  | running
 completed  | JOB_ENDED           | JOB_ENDED       | JOB_ENDED       | JOB_ENDED       | JOB_ENDED       | JOB_ENDED | completed
 failed     | JOB_ENDED           | JOB_ENDED       | JOB_ENDED       | JOB_ENDED       | JOB_ENDED       | JOB_ENDED | failed
 canceled   | JOB_ENDED           | JOB_ENDED       | JOB_ENDED       | JOB_ENDED       | JOB_ENDED       | JOB_ENDED | canceled
`;

const [commands = [], ...lines] = TABLE.trim()
  .split("\n")
  .map((line) => line.split("|").map((cell) => cell.trim()));
const rows = lines.flatMap(([status, ...outcomes]) =>
  outcomes.map((outcome, column) => ({
    status: status as Status,
    command: commands[column + 1] as CommandType,
    outcome: outcome as Status | Refusal,
  })),
);

describe("the transition table", () => {
  test("has a row for every status and command", () => {
    expect(rows).toHaveLength(STATUSES.length * Object.keys(COMMANDS).length);
    expect(commands.slice(1).toSorted()).toEqual(Object.keys(COMMANDS).toSorted());
  });

  test.each(rows)("a job that is $status, told to $command: $outcome", ({ status, command, outcome }) => {
    expect(TRANSITIONS[status][command]).toBe(outcome);
    const { job } = play(WAY[status].map((name) => COMMANDS[name]));
    expect(job.status).toBe(status);

    const decision = decide(job, COMMANDS[command], AT);
    if (isRefusal(outcome)) {
      expect(decision).toEqual({ refused: outcome });
      return;
    }
    if ("refused" in decision) throw new Error(`refused: ${decision.refused}`);
    expect(decision.events.length).toBeGreaterThan(0);
    const after = decision.events.reduce<Job>((folded, event) => reduce(folded, event), job);
    expect(after.status).toBe(outcome);
  });

  test.each(rows.filter(({ outcome }) => isRefusal(outcome)))(
    "an event that would $command a job that is $status changes nothing",
    ({ status, command }) => {
      // Whoever wrote it: the event is made by a job in another state and folded into this one.
      const other = play(
        (command === "start" ? [] : ["start" as const]).map((name) => COMMANDS[name]),
        newborn(),
      );
      const decision = decide({ ...other.job, seq: 90 }, COMMANDS[command], AT);
      const events = "events" in decision ? decision.events : [];
      expect(events.length).toBeGreaterThan(0);
      const { job } = play(WAY[status].map((name) => COMMANDS[name]));
      for (const event of events) expect(reduce(job, event)).toBe(job);
    },
  );

  test("lets nobody leave an ended status", () => {
    for (const status of STATUSES.filter(hasEnded)) {
      for (const outcome of Object.values(TRANSITIONS[status])) {
        expect(outcome === "JOB_ENDED" || outcome === status).toBe(true);
      }
    }
  });

  test("knows the command behind every event of the lifecycle", () => {
    const lifecycle = Object.keys(CATALOGUE).filter((type) => type.startsWith("job."));
    expect(Object.keys(COMMAND_OF).toSorted()).toEqual(lifecycle.toSorted());
    expect(COMMAND_OF["job.created" satisfies JobEventType]).toBeNull();
  });
});
