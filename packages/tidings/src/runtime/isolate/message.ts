/** What a worker and the process of an isolated attempt tell each other. */
import type { ChangeLimits, JobRecord } from "../../engine/engine.ts";
import type { ErrorInfo } from "../../model/error.ts";
import type { JobOutcome } from "../define-job.ts";

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

export type ToParent = {
  /** What was counted since the last commit. */
  readonly counts?: Readonly<Record<string, number>>;
  /** Keys of outside effects that no commit has carried yet. */
  readonly effects?: readonly OutsideEffect[];
} & (
  | { readonly kind: "returned"; readonly outcome: JobOutcome }
  /** `delayMs`: of a `RetryAfter`. */
  | { readonly kind: "threw"; readonly error: ErrorInfo; readonly delayMs?: number }
);

/** An outside effect of a job: what it was for, and the key that outside services were given. */
export interface OutsideEffect {
  readonly item: string;
  readonly key: string;
  /** The attempt that asked for the key. */
  readonly attempt: number;
}
