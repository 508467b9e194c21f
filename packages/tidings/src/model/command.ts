/**
 * What may be asked of a job, and the one transition table. `decide` uses it to admit commands, `reduce` to admit
 * events. It does not compile when a pair is forgotten.
 */
import type { ErrorInfo } from "./error.ts";
import type { InformationalDraft, JobEventType } from "./event.ts";
import type { Status } from "./job.ts";
import type { ProgressReport } from "./progress.ts";

export type Command =
  /** A worker begins an attempt. */
  | { readonly type: "start"; readonly summary?: string }
  /** Only reports above the shown percentage become events. */
  | { readonly type: "progress"; readonly reports: readonly ProgressReport[] }
  /** The attempt ended early and another one follows after the delay. */
  | { readonly type: "retry"; readonly error: ErrorInfo; readonly delayMs: number }
  | {
      readonly type: "complete";
      readonly resultResourceId: string;
      readonly summary?: string;
      /** The boundaries that were not reported yet, the last one at 100. */
      readonly reports: readonly ProgressReport[];
    }
  | { readonly type: "fail"; readonly error: ErrorInfo }
  | { readonly type: "cancel"; readonly canceledBy: string; readonly reason?: string }
  /** Adds informational events; allowed at any time, also after the end. */
  | { readonly type: "inform"; readonly events: readonly InformationalDraft[] };

export type CommandType = Command["type"];

/** Why a command was refused. A refusal is a race that was lost, not an error. */
export type Refusal = "JOB_ENDED" | "JOB_NOT_STARTED" | "JOB_ALREADY_RUNNING";

const ended = {
  start: "JOB_ENDED",
  progress: "JOB_ENDED",
  retry: "JOB_ENDED",
  complete: "JOB_ENDED",
  fail: "JOB_ENDED",
  cancel: "JOB_ENDED",
} as const;

/** For each status and command: the status that follows, or the refusal. */
export const TRANSITIONS: Readonly<Record<Status, Readonly<Record<CommandType, Status | Refusal>>>> = {
  pending: {
    start: "running",
    progress: "JOB_NOT_STARTED",
    retry: "JOB_NOT_STARTED",
    complete: "JOB_NOT_STARTED",
    fail: "JOB_NOT_STARTED",
    cancel: "canceled",
    inform: "pending",
  },
  running: {
    start: "JOB_ALREADY_RUNNING",
    progress: "running",
    retry: "pending",
    complete: "completed",
    fail: "failed",
    cancel: "canceled",
    inform: "running",
  },
  completed: { ...ended, inform: "completed" },
  failed: { ...ended, inform: "failed" },
  canceled: { ...ended, inform: "canceled" },
};

/** The command that an event of the job's lifecycle answers to; `null` for the birth of a job. */
export const COMMAND_OF: Readonly<Record<JobEventType, CommandType | null>> = {
  "job.created": null,
  "job.started": "start",
  "job.progress": "progress",
  "job.retrying": "retry",
  "job.partial": "inform",
  "job.completed": "complete",
  "job.failed": "fail",
  "job.canceled": "cancel",
};

export function isRefusal(outcome: Status | Refusal): outcome is Refusal {
  return outcome === "JOB_ENDED" || outcome === "JOB_NOT_STARTED" || outcome === "JOB_ALREADY_RUNNING";
}
