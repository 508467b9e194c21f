/** Forgetting in memory. */
import { hasEnded } from "../../model/job.ts";
import type { PruneRequest } from "../engine.ts";
import type { LogLine, MemoryJob, Owner, State } from "./state.ts";

export function prune(state: State, request: PruneRequest, nowMs: number): { jobs: number; events: number } {
  const removed = { jobs: 0, events: 0 };
  const { olderThanMs, keepEvents } = request;
  for (const owner of state.owners.values()) {
    if (olderThanMs !== undefined) {
      const gone = [...owner.jobs].filter(
        ([, { endedAtMs }]) => endedAtMs !== undefined && endedAtMs <= nowMs - olderThanMs,
      );
      const ids = new Set(gone.map(([jobId]) => jobId));
      removed.jobs += ids.size;
      removed.events += removeLines(owner, ({ event }) => event.jobId !== undefined && ids.has(event.jobId));
      for (const [jobId, { key }] of gone) {
        owner.jobs.delete(jobId);
        if (key !== undefined) owner.keys.delete(key);
      }
      removed.events += removeLines(
        owner,
        ({ event }) => event.jobId === undefined && Date.parse(event.timestamp) <= nowMs - olderThanMs,
      );
    }
    if (keepEvents !== undefined) {
      const oldest = owner.log.at(-Math.max(1, keepEvents))?.position ?? 0;
      const bound = keepEvents > 0 ? oldest : Number.POSITIVE_INFINITY;
      removed.events += removeLines(owner, (line) => line.position < bound && !isNeeded(jobOf(owner, line)));
    }
  }
  return removed;
}

function removeLines(owner: Owner, isGone: (line: LogLine) => boolean): number {
  const gone = owner.log.filter(isGone);
  if (gone.length === 0) return 0;
  owner.log = owner.log.filter((line) => !isGone(line));
  for (const line of gone) {
    owner.trimmedThrough = Math.max(owner.trimmedThrough, line.position);
    const job = jobOf(owner, line);
    if (job !== undefined) job.trimmedThrough = Math.max(job.trimmedThrough, line.position);
    if (line.event.jobId === undefined) owner.published.delete(line.event.eventId);
  }
  return gone.length;
}

function jobOf(owner: Owner, { event }: LogLine): MemoryJob | undefined {
  return event.jobId === undefined ? undefined : owner.jobs.get(event.jobId);
}

function isNeeded(job: MemoryJob | undefined): boolean {
  return job !== undefined && !hasEnded(job.kept.record.job.status);
}
