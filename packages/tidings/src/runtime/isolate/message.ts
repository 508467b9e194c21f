/** What a worker and the process of an isolated attempt tell each other. */
import type { ChangeLimits, JobRecord } from "../../engine/engine.ts";
import type { ErrorInfo } from "../../model/error.ts";
import type { OutsideEffect } from "../effect-keys.ts";

export type ToChild =
  | {
      readonly kind: "run";
      /** Address of the module that defines the job. */
      readonly module: string;
      /** What `openEngine` takes. */
      readonly store: string;
      readonly record: JobRecord;
      readonly limits: ChangeLimits;
    }
  | { readonly kind: "abort"; readonly error: ErrorInfo };

export type ToParent =
  | ({ readonly kind: "returned"; readonly summary?: string; readonly result?: unknown } & Rest)
  /** `delayMs`: of a `RetryAfter`. */
  | ({ readonly kind: "threw"; readonly error: ErrorInfo; readonly delayMs?: number } & Rest)
  /** Nobody awaited what was thrown: the process ends by it. */
  | { readonly kind: "crashing"; readonly error: ErrorInfo }
  /** The handler's callback has begun, or ended, inside a transaction, which keeps other writers out. */
  | { readonly kind: "writing" | "written" };

/** What the last commit of the attempt still has to carry. */
export interface Rest {
  readonly counts: Readonly<Record<string, number>>;
  readonly effects: readonly OutsideEffect[];
}
