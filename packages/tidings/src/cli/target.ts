/** What commands work on: a store on this machine, or a server over MCP. */
import type { TidingsEvent } from "../model/event.ts";
import type { Status } from "../model/job.ts";
import type { JobSnapshot } from "../runtime/snapshot.ts";
import type { Tidings } from "../runtime/tidings.ts";

export interface ListRequest {
  readonly status?: Status;
  readonly correlationId?: string;
  readonly limit: number;
}

/** An event and the cursor behind it; a gap stands for events that are no longer kept. */
export type Told =
  | { readonly kind: "event"; readonly event: TidingsEvent; readonly cursor: string | undefined }
  | { readonly kind: "gap"; readonly cursor: string };

export interface Target {
  readonly name: string;
  list(request: ListRequest): Promise<readonly JobSnapshot[]>;
  /** @throws TidingsError JOB_NOT_FOUND */
  get(jobId: string): Promise<JobSnapshot>;
  /** The story of a job, or all that happens, from a cursor (undefined: from the beginning, `now`: what comes). Never ends by itself. */
  follow(
    jobId: string | undefined,
    after: string | "now" | undefined,
    signal: AbortSignal,
  ): AsyncIterable<Told>;
  /** What is kept of a job's story, as far as it has come. */
  story(jobId: string): Promise<readonly Told[]>;
  cancel(jobId: string, reason: string | undefined): Promise<JobSnapshot>;
  retry(jobId: string): Promise<{ readonly jobId: string; readonly status: Status }>;
  /** Set for a store. */
  readonly store?: { readonly tidings: Tidings; readonly owner: string };
  close(): Promise<void>;
}
