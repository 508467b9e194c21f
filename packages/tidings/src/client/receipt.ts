/** What an inbox answers and counts. */
import type { TidingsEvent } from "../model/event.ts";
import type { ReadOutcome } from "../model/projection/read.ts";
import type { ClientJob } from "./snapshot.ts";

/** Events of a job that did not arrive in time. */
export interface Gap {
  readonly jobId: string;
  /** Reading after it gives the missing events; undefined when no cursor of this job was seen yet. */
  readonly after?: string;
  /** First and last `seq` that are missing. */
  readonly from: number;
  readonly to: number;
}

/** What became of a message. */
export type Receipt =
  /** In order: the event itself and those that had waited for it. */
  | { readonly kind: "applied"; readonly events: readonly TidingsEvent[] }
  | { readonly kind: "repeat" }
  /** Waits for the events before it. */
  | { readonly kind: "held" }
  /** A transition that is not allowed, or progress below the shown value. */
  | { readonly kind: "ignored"; readonly reason: "illegal" | "lowered" }
  | { readonly kind: "restored"; readonly job: ClientJob }
  /** A sign of life of a stream; concerns no job. */
  | { readonly kind: "heartbeat" }
  | Exclude<ReadOutcome, { kind: "event" }>;

export interface InboxCounters {
  applied: number;
  repeats: number;
  /** Events that came before their turn. */
  outOfOrder: number;
  illegal: number;
  /** Progress reports below the shown value. */
  lowered: number;
  invalid: number;
  hints: number;
  gaps: number;
}
