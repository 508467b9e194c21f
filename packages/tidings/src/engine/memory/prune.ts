/** Forgetting in memory. */
import { hasEnded } from "../../model/job.ts";
import type { PruneRequest } from "../engine.ts";
import { findIdle } from "../transition.ts";
import type { LogLine, MemoryJob, Owner, State } from "./state.ts";

export function prune(state: State, request: PruneRequest, nowMs: number): { jobs: number; events: number } {
  const removed = { jobs: 0, events: 0 };
  const { olderThanMs, maxBytes, compactAfterMs, keepEvents } = request;
  for (const owner of state.owners.values()) {
    for (const [key, { expiresAtMs }] of owner.values) if (expiresAtMs <= nowMs) owner.values.delete(key);
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
    if (keepEvents !== undefined) {
      const oldest = owner.log.at(-Math.max(1, keepEvents))?.position ?? 0;
      const bound = keepEvents > 0 ? oldest : Number.POSITIVE_INFINITY;
      removed.events += removeLines(owner, (line) => line.position < bound && !isNeeded(jobOf(owner, line)));
    }
  }
  if (maxBytes !== undefined) shrink(state, maxBytes, removed);
  return removed;
}

function removeJob(owner: Owner, { kept, key }: MemoryJob): number {
  const { jobId } = kept.record.job;
  const events = removeLines(owner, ({ event }) => event.jobId === jobId);
  owner.jobs.delete(jobId);
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

/** An estimate: the texts, without what the process needs to find them again. */
function bytesOf(owner: Owner): number {
  const texts = [...owner.log.map(({ body }) => body), ...[...owner.values.values()].map(({ body }) => body)];
  for (const { documents, collections } of owner.jobs.values()) {
    texts.push(...Object.values(documents), ...[...collections.values()].flat());
  }
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0);
}

function shrink(state: State, maxBytes: number, removed: { jobs: number; events: number }): void {
  const owners = [...state.owners.values()];
  const isOver = () => owners.reduce((bytes, owner) => bytes + bytesOf(owner), 0) > maxBytes;
  const ended = owners
    .flatMap((owner) => [...owner.jobs.values()].map((job) => ({ owner, job })))
    .filter(({ job }) => job.endedAtMs !== undefined)
    .sort((a, b) => (a.job.endedAtMs ?? 0) - (b.job.endedAtMs ?? 0));
  const published = owners
    .flatMap((owner) => [...owner.published.values()].map((line) => ({ owner, line })))
    .sort((a, b) => a.line.position - b.line.position);
  while (ended.length + published.length > 0 && isOver()) {
    const next = ended.shift();
    if (next !== undefined) {
      removed.events += removeJob(next.owner, next.job);
      removed.jobs += 1;
      continue;
    }
    const old = published.shift();
    if (old !== undefined) removed.events += removeLines(old.owner, (line) => line === old.line);
  }
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
