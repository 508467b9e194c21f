/** How patient an inbox is, how much it keeps, and whom it tells. */
import type { Clock } from "../model/clock.ts";
import type { EventDefinition } from "../model/define-event.ts";
import type { ReadOutcome } from "../model/projection/read.ts";
import type { Gap } from "./receipt.ts";

export interface InboxOptions {
  /** Types of your own, so that their payloads are checked too. */
  readonly events?: readonly EventDefinition<string, never>[];
  /**
   * Called once for each gap. Repair it here (`inbox.restore(await getJob(jobId))`, or read on after `gap.after` and
   * give the events to the inbox); when the returned promise settles, the story goes on without what still misses.
   * Not called for a job while `follow` reads it into this inbox: that repairs by itself, and has its own `onGap`.
   */
  readonly onGap?: (gap: Gap) => void | Promise<void>;
  /** A standard MCP notification said that something may be worth reading again. */
  readonly onHint?: (hint: Extract<ReadOutcome, { kind: "hint" }>) => void;
  readonly onInvalid?: (problem: string) => void;
  /** Errors thrown by listeners and the callbacks above. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
  /** How long an event waits for those before it, in milliseconds. Default 500; `Infinity` = until `maxHeld` wait. */
  readonly holdMs?: number;
  /**
   * How many events of one job may wait: one more makes it a gap at once. While that is being repaired as many again may
   * wait; then the story goes on unrepaired. Default 64.
   */
  readonly maxHeld?: number;
  /** How many jobs are kept; ended ones leave first, the oldest first. Default 1,000. */
  readonly maxJobs?: number;
  /** How many `eventId`s are remembered. Default 4,096. */
  readonly maxIds?: number;
  readonly clock?: Clock;
}
