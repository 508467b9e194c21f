/** A view of an inbox's jobs for user interfaces of any framework. */
import type { Inbox } from "./inbox.ts";
import type { ClientJob } from "./snapshot.ts";

export interface JobStore {
  /** The same object until something about the job changes. */
  get(jobId: string): ClientJob | undefined;
  /** The same array until something about any job changes. In order of first appearance. */
  list(): readonly ClientJob[];
  /** Calls back after every change; returns the way to stop. Fits React's `useSyncExternalStore`. */
  subscribe(listener: () => void): () => void;
}

/** Creates a store over an inbox; it holds nothing that the inbox does not hold. */
export function createJobStore(inbox: Inbox): JobStore {
  let jobs: readonly ClientJob[] = [];
  return {
    get: (jobId) => inbox.get(jobId),
    list() {
      const now = inbox.list();
      if (now.length !== jobs.length || now.some((job, index) => job !== jobs[index])) jobs = now;
      return jobs;
    },
    subscribe: (listener) => inbox.onChange(() => listener()),
  };
}
