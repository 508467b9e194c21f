/** Forgetting in memory. */
import { hasEnded } from "../../model/job.ts";
import type { PruneRequest } from "../engine.ts";
import { findIdle } from "../transition.ts";
import { fairShare, weighRow } from "../weight.ts";
import { type LogLine, type MemoryJob, type Owner, type State, setValue } from "./state.ts";

export function prune(state: State, request: PruneRequest, nowMs: number): { jobs: number; events: number } {
  const removed = { jobs: 0, events: 0 };
  const { olderThanMs, maxBytes, compactAfterMs, keepEvents, perOwner } = request;
  for (const [name, owner] of state.owners) {
    for (const [key, { expiresAtMs }] of owner.values)
      if (expiresAtMs <= nowMs) setValue(owner, key, undefined);
    if (olderThanMs !== undefined) {
      const gone = [...owner.jobs.values()].filter(
        ({ endedAtMs }) => endedAtMs !== undefined && endedAtMs <= nowMs - olderThanMs,
      );
      for (const job of gone) removed.events += removeJob(owner, job);
      removed.jobs += gone.length;
      removed.events += removeLines(
        owner,
        ({ event }) => event.jobId === undefined && Date.parse(event.timestamp) <= nowMs - olderThanMs,
      );
    }
    if (compactAfterMs !== undefined) {
      for (const job of owner.jobs.values()) {
        const { endedAtMs } = job;
        if (endedAtMs === undefined || endedAtMs > nowMs - compactAfterMs || job.isCompact) continue;
        removed.events += compact(owner, job);
      }
    }
    if (perOwner !== undefined && (perOwner.owner ?? name) === name) shrink(owner, perOwner.bytes, removed);
    if (keepEvents !== undefined) {
      const oldest = owner.log.at(-Math.max(1, keepEvents))?.position ?? 0;
      const bound = keepEvents > 0 ? oldest : Number.POSITIVE_INFINITY;
      removed.events += removeLines(owner, (line) => line.position < bound && !isNeeded(jobOf(owner, line)));
    }
  }
  if (maxBytes !== undefined) shrinkAll(state, maxBytes, removed);
  return removed;
}

function removeJob(owner: Owner, { kept, key, bytes }: MemoryJob): number {
  const { jobId } = kept.record.job;
  const events = removeLines(owner, ({ event }) => event.jobId === jobId);
  owner.jobs.delete(jobId);
  owner.bytes -= bytes;
  if (key !== undefined) owner.keys.delete(key);
  return events;
}

function compact(owner: Owner, job: MemoryJob): number {
  const { jobId } = job.kept.record.job;
  const reports = owner.log
    .filter(({ event }) => event.jobId === jobId && event.type === "job.progress")
    .map(({ position, event }) => ({
      position,
      stageKey: event.type === "job.progress" ? event.stageKey : "",
    }));
  const idle = new Set(findIdle(reports));
  job.isCompact = true;
  return removeLines(owner, ({ position }) => idle.has(position));
}

/** Who keeps no more than its share loses nothing. */
function shrinkAll(state: State, maxBytes: number, removed: { jobs: number; events: number }): void {
  const owners = [...state.owners.values()];
  const share = fairShare(
    owners.map(({ bytes }) => bytes),
    maxBytes,
  );
  for (const owner of owners) shrink(owner, share, removed);
}

/** Removes what ended first, then the oldest events without a job. */
function shrink(owner: Owner, maxBytes: number, removed: { jobs: number; events: number }): void {
  const ended = [...owner.jobs.values()]
    .filter(({ endedAtMs }) => endedAtMs !== undefined)
    .sort((a, b) => (a.endedAtMs ?? 0) - (b.endedAtMs ?? 0));
  const published = [...owner.published.values()];
  while (owner.bytes > maxBytes) {
    const job = ended.shift();
    const line = job === undefined ? published.shift() : undefined;
    if (job !== undefined) {
      removed.events += removeJob(owner, job);
      removed.jobs += 1;
    } else if (line !== undefined) removed.events += removeLines(owner, (each) => each === line);
    else return;
  }
}

function removeLines(owner: Owner, isGone: (line: LogLine) => boolean): number {
  const gone = owner.log.filter(isGone);
  if (gone.length === 0) return 0;
  owner.log = owner.log.filter((line) => !isGone(line));
  for (const line of gone) {
    owner.bytes -= weighRow(line.body);
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
