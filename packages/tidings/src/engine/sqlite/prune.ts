/** Forgetting, in batches so small that other writers hardly notice. */
import type { PruneRequest } from "../engine.ts";
import { findIdle } from "../transition.ts";
import type { Connection, Row } from "./driver.ts";

const JOBS_PER_COMMIT = 50;
const EVENTS_PER_COMMIT = 500;
/** Few, because the store may need to lose only a little. */
const OLDEST_PER_COMMIT = 5;
const PAGES_PER_COMMIT = 256;

interface Removed {
  readonly jobs: number;
  readonly events: number;
}

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
  const { olderThanMs, maxBytes, compactAfterMs, keepEvents } = request;
  while ((await access.write(() => removeExpired(access.connection, nowMs))) === EVENTS_PER_COMMIT);
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
  if (compactAfterMs !== undefined) removed.events += await compact(access, nowMs - compactAfterMs);
  if (maxBytes !== undefined) {
    while (access.connection.usedBytes() > maxBytes) {
      const batch = await access.write(() => removeOldest(access.connection));
      removed.jobs += batch.jobs;
      removed.events += batch.events;
      if (batch.jobs + batch.events === 0) break;
    }
  }
  if (removed.jobs + removed.events > 0) await giveBack(access);
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

function removeJobs(connection: Connection, endedThroughMs: number): Removed {
  return removeEach(connection, connection.statement("endedJobs").all(endedThroughMs, JOBS_PER_COMMIT));
}

/** A few of the jobs that ended first; without any, a few of the oldest events without a job. */
function removeOldest(connection: Connection): Removed {
  const { statement } = connection;
  const rows = statement("firstEnded").all(OLDEST_PER_COMMIT);
  if (rows.length > 0) return removeEach(connection, rows);
  return { jobs: 0, events: removeEntries(connection, statement("firstPublished").all(EVENTS_PER_COMMIT)) };
}

function removeEach({ statement }: Connection, rows: readonly Row[]): Removed {
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

function removePublished(connection: Connection, publishedThroughMs: number): number {
  const rows = connection.statement("oldPublished").all(publishedThroughMs, EVENTS_PER_COMMIT);
  return removeEntries(connection, rows);
}

function removeEntries({ statement }: Connection, rows: readonly Row[]): number {
  for (const { owner, position } of rows) {
    statement("deleteEvent").run(owner!, position!);
    statement("trimOwner").run(owner!, position!);
  }
  return rows.length;
}

function removeExpired({ statement }: Connection, nowMs: number): number {
  return Number(statement("deleteExpired").run(nowMs, EVENTS_PER_COMMIT).changes);
}

/** Job by job, and of each story so many events in one commit. */
async function compact({ read, write, connection }: Access, endedThroughMs: number): Promise<number> {
  const { statement } = connection;
  let removed = 0;
  for (;;) {
    const [job] = await read((reader) => reader.statement("wordyJobs").all(endedThroughMs, 1));
    if (job === undefined) return removed;
    const { owner, job_id: jobId } = job;
    const rows = await read((reader) => reader.statement("reportsOfJob").all(owner!, jobId!));
    const idle = findIdle(rows.map((row) => ({ position: Number(row.position), stageKey: row.stage_key })));
    for (let from = 0; from <= idle.length; from += EVENTS_PER_COMMIT) {
      const batch = idle.slice(from, from + EVENTS_PER_COMMIT);
      await write(() => {
        for (const position of batch) statement("deleteEvent").run(owner!, position);
        const last = batch.at(-1);
        if (last !== undefined) {
          statement("trimJob").run(last, owner!, jobId!);
          statement("trimOwner").run(owner!, last);
        }
        if (batch.length < EVENTS_PER_COMMIT) statement("markCompact").run(owner!, jobId!);
      });
      removed += batch.length;
    }
  }
}

/** Free pages go back to the disk, a few at a time. */
async function giveBack({ write, connection }: Access): Promise<void> {
  const free = () => Number(connection.statement("freePages").get()?.freelist_count);
  for (let before = free(); before > 0; ) {
    await write(() => void connection.database.exec(`PRAGMA incremental_vacuum(${PAGES_PER_COMMIT})`));
    const left = free();
    // A file that was made without it keeps its pages, and uses them again.
    if (left >= before) return;
    before = left;
  }
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
