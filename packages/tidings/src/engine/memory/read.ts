/** Reading in memory. */
import type { EventFilter, JobRecord, ListRequest, Reading } from "../engine.ts";
import { isEverything, matches } from "../event-filter.ts";
import { bareRecord, entryOf, type LogLine, type Owner, type State } from "./state.ts";

export function list(state: State, owner: string, request: ListRequest): readonly JobRecord[] {
  return [...(state.owners.get(owner)?.jobs.values() ?? [])]
    .map(bareRecord)
    .filter(
      ({ job, birth }) =>
        (request.status === undefined || job.status === request.status) &&
        (request.correlationId === undefined || job.correlationId === request.correlationId) &&
        (request.before === undefined || birth < request.before),
    )
    .sort((a, b) => b.birth - a.birth)
    .slice(0, Math.max(0, request.limit));
}

export function read(state: State, name: string, filter: EventFilter, after: number, limit: number): Reading {
  const owner = state.owners.get(name);
  if (owner === undefined) return { entries: [], through: after, head: 0, truncated: false };
  const lines: LogLine[] = [];
  let complete = true;
  for (const line of owner.log.slice(firstAfter(owner.log, after))) {
    if (!matches(filter, line.event)) continue;
    if (lines.length >= limit) {
      complete = false;
      break;
    }
    lines.push(line);
  }
  return {
    entries: lines.map(entryOf),
    through: complete ? Math.max(owner.head, after) : (lines.at(-1)?.position ?? after),
    head: owner.head,
    truncated: isTruncated(owner, filter, after),
  };
}

function isTruncated(owner: Owner, filter: EventFilter, after: number): boolean {
  const { jobIds, correlationId, resourceIds } = filter;
  const byOwner = owner.trimmedThrough > after;
  if (isEverything(filter) || correlationId !== undefined || (resourceIds?.length ?? 0) > 0) return byOwner;
  return (jobIds ?? []).some((jobId) => {
    const job = owner.jobs.get(jobId);
    return job === undefined ? byOwner : job.trimmedThrough > after;
  });
}

function firstAfter(log: readonly LogLine[], after: number): number {
  let low = 0;
  let high = log.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (log[middle]!.position <= after) low = middle + 1;
    else high = middle;
  }
  return low;
}
