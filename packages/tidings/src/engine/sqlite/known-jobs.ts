/**
 * Rows of jobs as this process wrote them last, so that the next change of a job need not read and parse its row again.
 * Only what certainly stands in the file: forgotten as soon as a transaction is undone or another process has committed.
 */
import type { KeptJob } from "../transition.ts";
import type { Connection } from "./driver.ts";

/** Enough for every job that runs at a time; beyond it all are forgotten and learnt anew. */
const LIMIT = 1_000;

export interface KnownJobs {
  get(owner: string, jobId: string): KeptJob | undefined;
  set(kept: KeptJob): void;
  /** Call when the row is written in any other way. */
  forget(owner: string, jobId: string): void;
  clear(): void;
  /** Call at the beginning of a transaction, when nobody else can write any more. */
  begun(): void;
}

export function createKnownJobs({ statement }: Connection): KnownJobs {
  const jobs = new Map<string, KeptJob>();
  let version: unknown;
  // The length keeps owners apart, whatever stands in their names.
  const keyOf = (owner: string, jobId: string) => `${owner.length}:${owner}${jobId}`;

  return {
    get: (owner, jobId) => jobs.get(keyOf(owner, jobId)),
    set(kept) {
      if (jobs.size >= LIMIT) jobs.clear();
      jobs.set(keyOf(kept.record.owner, kept.record.job.jobId), kept);
    },
    forget: (owner, jobId) => void jobs.delete(keyOf(owner, jobId)),
    clear: () => jobs.clear(),
    begun() {
      const current = statement("dataVersion").get()?.data_version;
      if (current !== version) jobs.clear();
      version = current;
    },
  };
}
