/** How much one owner and one job may take, so that nobody fills the store or the process for everybody else. */
import type { ChangeLimits, QueueLimit } from "../engine/engine.ts";
import { TidingsError } from "../model/error.ts";

/** Sizes are bytes of JSON. */
export interface Limits {
  /** Jobs that one owner may have waiting for a worker. Default 1 000. Another start fails with QUEUE_FULL. */
  readonly queuedJobsPerOwner: number;
  /** Bytes of the inputs of those jobs together. Default 64 MiB. QUEUE_FULL beyond it. */
  readonly queuedBytesPerOwner: number;
  /** Bytes of everything that one owner keeps: texts, and a share for each row. Default: `retentionBytes` of `createTidings`. A start beyond it removes the owner's jobs that ended first; it fails with OWNER_FULL when that is not enough. */
  readonly storedBytesPerOwner: number;
  /** Input of one job. Default 1 MiB: a file belongs beside the store, with its name in the input. PAYLOAD_TOO_LARGE beyond it. */
  readonly inputBytes: number;
  /** One event. Default 64 KiB: every reader is sent it. PAYLOAD_TOO_LARGE beyond it. */
  readonly eventBytes: number;
  /** What a handler saves with `checkpoint`. Default 1 MiB. PAYLOAD_TOO_LARGE beyond it. */
  readonly checkpointBytes: number;
  /** What a handler returns. Default 16 MiB; larger results grow in a collection. PAYLOAD_TOO_LARGE beyond it. */
  readonly resultBytes: number;
  /** One item of a collection. Default 1 MiB. PAYLOAD_TOO_LARGE beyond it. */
  readonly itemBytes: number;
  /** Events of one job. Default 100 000, seven hours of progress at its fastest. The handler fails with TOO_MANY_EVENTS. */
  readonly eventsPerJob: number;
}

const KIB = 1_024;
const MIB = 1_024 * KIB;

export const DEFAULT_LIMITS: Limits = {
  queuedJobsPerOwner: 1_000,
  queuedBytesPerOwner: 64 * MIB,
  storedBytesPerOwner: Number.POSITIVE_INFINITY,
  inputBytes: MIB,
  eventBytes: 64 * KIB,
  checkpointBytes: MIB,
  resultBytes: 16 * MIB,
  itemBytes: MIB,
  eventsPerJob: 100_000,
};

/** @throws TidingsError BAD_DEFINITION for a limit that is no positive number. */
export function readLimits(asked: Partial<Limits> = {}): Limits {
  const limits = { ...DEFAULT_LIMITS, ...asked };
  for (const [name, value] of Object.entries(limits)) {
    if (value > 0) continue;
    throw new TidingsError("BAD_DEFINITION", `limits.${name} is ${value}, but must be a number above 0.`, {
      hint: "Leave it out for its default; Infinity means no limit.",
    });
  }
  return limits;
}

export function queueLimitOf(limits: Limits): QueueLimit {
  const { queuedJobsPerOwner, queuedBytesPerOwner, storedBytesPerOwner } = limits;
  return { jobs: queuedJobsPerOwner, bytes: queuedBytesPerOwner, storedBytes: storedBytesPerOwner };
}

export function changeLimitsOf(limits: Limits): ChangeLimits {
  const { eventBytes, checkpointBytes, resultBytes, itemBytes, eventsPerJob: events } = limits;
  return { eventBytes, checkpointBytes, resultBytes, itemBytes, events };
}
