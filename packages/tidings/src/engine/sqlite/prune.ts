/** Forgetting, in batches so small that other writers hardly notice. */
import type { PruneRequest } from "../engine.ts";
import type { Connection } from "./driver.ts";

const JOBS_PER_COMMIT = 50;
const EVENTS_PER_COMMIT = 500;

/** How to get at the store: each call fails once it is closed. */
export interface Access {
  readonly connection: Connection;
  write<T>(work: () => T): Promise<T>;
  read<T>(work: (connection: Connection) => T): Promise<T>;
}

export async function prune(
  access: Access,
  request: PruneRequest,
  nowMs: number,
): Promise<{ jobs: number; events: number }> {
  const removed = { jobs: 0, events: 0 };
  const { olderThanMs, keepEvents } = request;
  if (olderThanMs !== undefined) {
    for (;;) {
      const batch = await access.write(() => removeJobs(access.connection, nowMs - olderThanMs));
      removed.jobs += batch.jobs;
      removed.events += batch.events;
      if (batch.jobs < JOBS_PER_COMMIT) break;
    }
    for (;;) {
      const events = await access.write(() => removePublished(access.connection, nowMs - olderThanMs));
      removed.events += events;
      if (events < EVENTS_PER_COMMIT) break;
    }
  }
  if (keepEvents !== undefined) {
    let owner = await nextOwner(access, "");
    while (owner !== undefined) {
      removed.events += await trimLog(access, owner, keepEvents);
      owner = await nextOwner(access, owner);
    }
  }
  return removed;
}

function nextOwner({ read }: Access, after: string): Promise<string | undefined> {
  return read(({ statement }) => statement("nextOwner").get(after)?.owner as string | undefined);
}

function removeJobs({ statement }: Connection, endedThroughMs: number): { jobs: number; events: number } {
  const rows = statement("endedJobs").all(endedThroughMs, JOBS_PER_COMMIT);
  let events = 0;
  for (const { owner, job_id, position } of rows) {
    events += Number(statement("deleteEventsOfJob").run(owner!, job_id!).changes);
    statement("deleteItems").run(owner!, job_id!);
    statement("deleteDocuments").run(owner!, job_id!);
    statement("deleteJob").run(owner!, job_id!);
    statement("trimOwner").run(owner!, position!);
  }
  return { jobs: rows.length, events };
}

function removePublished({ statement }: Connection, publishedThroughMs: number): number {
  const rows = statement("oldPublished").all(publishedThroughMs, EVENTS_PER_COMMIT);
  for (const { owner, position } of rows) {
    statement("deleteEvent").run(owner!, position!);
    statement("trimOwner").run(owner!, position!);
  }
  return rows.length;
}

async function trimLog(
  { read, write, connection }: Access,
  owner: string,
  keepEvents: number,
): Promise<number> {
  const { statement } = connection;
  const nth = await read((reader) => reader.statement("nthNewest").get(owner, Math.max(0, keepEvents - 1)));
  const bound = keepEvents > 0 ? Number(nth?.position ?? 0) : Number.MAX_SAFE_INTEGER;
  let from = 0;
  let removed = 0;
  for (;;) {
    const batch = await write(() => {
      const rows = statement("oldEvents").all(owner, from, bound, EVENTS_PER_COMMIT);
      const needed = new Map<string, boolean>();
      let events = 0;
      for (const { position, job_id: jobId } of rows) {
        if (typeof jobId === "string") {
          const isNeeded = needed.get(jobId) ?? statement("jobEnded").get(owner, jobId)?.ended_at === null;
          needed.set(jobId, isNeeded);
          if (isNeeded) continue;
          statement("trimJob").run(position!, owner, jobId);
        }
        events += Number(statement("deleteEvent").run(owner, position!).changes);
        statement("trimOwner").run(owner, position!);
      }
      return { events, last: rows.length < EVENTS_PER_COMMIT ? undefined : Number(rows.at(-1)?.position) };
    });
    removed += batch.events;
    if (batch.last === undefined) return removed;
    from = batch.last;
  }
}
