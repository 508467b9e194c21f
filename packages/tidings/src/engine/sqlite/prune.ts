/**
 * Forgetting, so little at a time that other writers hardly notice.
 *
 *   batch ─▶ COMMIT ─▶ as long a pause as the batch took ─▶ batch …      other processes get in between
 *
 * A batch is bounded by rows and by bytes, not by jobs: one job may have a hundred thousand events. A job that is larger
 * than a batch loses its events first and its row last, so that whoever goes on finds it again.
 */
import type { Clock } from "../../model/clock.ts";
import type { PruneRequest } from "../engine.ts";
import { findIdle } from "../transition.ts";
import { fairShare, JOB_BYTES, ROW_BYTES } from "../weight.ts";
import type { Connection, Row, Statement } from "./driver.ts";
import { pause } from "./fault.ts";
import { toColumn } from "./text.ts";
import type { WriteConnection } from "./usage.ts";

const ROWS_PER_BATCH = 128;
const BYTES_PER_BATCH = 4 * 2 ** 20;
const PAGES_PER_BATCH = 64;
/** A batch that had to wait itself for other writers looks longer than it was. */
const LONGEST_PAUSE_MS = 20;
const JOBS_PER_LOOK = 50;
const OWNERS_AT_A_TIME = 1_000;

/** How to get at the store: each call fails once it is closed. */
export interface Access {
  readonly connection: WriteConnection;
  readonly clock: Clock;
  write<T>(work: () => T): Promise<T>;
  read<T>(work: (connection: Connection) => T): Promise<T>;
}

interface Removed {
  readonly jobs: number;
  readonly events: number;
}

interface Batch extends Removed {
  /** Whether another one may find something. */
  readonly more: boolean;
}

/** What committed batches removed. */
interface Total {
  jobs: number;
  events: number;
}

export async function prune(access: Access, request: PruneRequest): Promise<Removed> {
  const total: Total = { jobs: 0, events: 0 };
  const { olderThanMs, maxBytes, compactAfterMs, keepEvents, perOwner } = request;
  const nowMs = access.clock.now();
  const { connection } = access;
  const { statement } = connection;
  await inBatches(access, total, () => {
    const gone = statement("deleteExpired").all(nowMs, ROWS_PER_BATCH);
    for (const { owner, bytes } of gone) {
      connection.usage.add(owner as string, { bytes: -(Number(bytes) + ROW_BYTES) });
    }
    return { jobs: 0, events: 0, more: gone.length === ROWS_PER_BATCH };
  });
  if (olderThanMs !== undefined) {
    const through = nowMs - olderThanMs;
    await inBatches(access, total, () =>
      removeJobs(connection, statement("endedJobs").all(through, ROWS_PER_BATCH)),
    );
    await inBatches(access, total, () =>
      removeEntries(connection, statement("oldPublished").all(through, ROWS_PER_BATCH)),
    );
  }
  if (compactAfterMs !== undefined) await compact(access, nowMs - compactAfterMs, total);
  if (perOwner !== undefined) await shrinkOwners(access, perOwner, total);
  if (maxBytes !== undefined) await shrinkStore(access, maxBytes, total);
  // What one owner gives up for its own next job is used again at once.
  if (total.jobs + total.events > 0 && perOwner?.owner === undefined) await giveBack(access, total);
  if (keepEvents !== undefined) {
    let owner = await nextOwner(access, "");
    while (owner !== undefined) {
      await trimLog(access, owner, keepEvents, total);
      owner = await nextOwner(access, owner);
    }
  }
  return total;
}

/**
 * Calls until nothing is left, each time in a commit of its own.
 *
 * @param remove - May be undone and called again: it changes nothing but the store.
 */
async function inBatches(
  { write, clock }: Access,
  total: Total,
  remove: (from: number) => Batch & { readonly from?: number },
): Promise<void> {
  for (let from = 0; ; ) {
    const begunAt = clock.monotonic();
    const batch = await write(() => remove(from));
    total.jobs += batch.jobs;
    total.events += batch.events;
    if (!batch.more) return;
    from = batch.from ?? 0;
    const spentMs = clock.monotonic() - begunAt;
    if (spentMs > 0) await pause(clock, Math.min(spentMs, LONGEST_PAUSE_MS));
  }
}

const always = () => true;

/** Removes of these ended jobs as many as one batch may, and as is needed. */
function removeJobs(connection: WriteConnection, rows: readonly Row[], isNeeded = always): Batch {
  const { statement, usage } = connection;
  const removed: Total = { jobs: 0, events: 0 };
  let room = ROWS_PER_BATCH;
  let bytes = 0;
  for (const { owner, job_id: jobId, position } of rows) {
    if (room <= 0 || bytes >= BYTES_PER_BATCH || !isNeeded()) break;
    const events = removedBy(statement("deleteEventsOfJob"), [owner!, jobId!, room], ROW_BYTES);
    room -= events.rows;
    removed.events += events.rows;
    let freed = events.bytes;
    // Its readers are told at once, even while some of the story is still there.
    statement("trimOwner").run(owner!, position!);
    if (room > 0) {
      const items = removedBy(statement("deleteItems"), [owner!, jobId!, room], CHUNK_BYTES);
      room -= items.rows;
      freed += items.bytes;
    }
    if (room > 0) {
      freed += removedBy(statement("deleteDocuments"), [owner!, jobId!], 0).bytes + JOB_BYTES;
      statement("deleteJob").run(owner!, jobId!);
      room -= 2;
      removed.jobs += 1;
    } else statement("trimJob").run(position!, owner!, jobId!);
    usage.add(owner as string, { bytes: -freed });
    bytes += freed;
  }
  return { ...removed, more: rows.length > 0 };
}

/** A chunk's brackets and commas are one byte more than its items. */
const CHUNK_BYTES = -1;

/** How many rows a statement removed, and what they counted: their texts, and `each` beside it. */
function removedBy(
  statement: Statement,
  cells: Parameters<Statement["all"]>,
  each: number,
): { readonly rows: number; readonly bytes: number } {
  const gone = statement.all(...cells);
  return { rows: gone.length, bytes: gone.reduce((sum, { bytes }) => sum + Number(bytes) + each, 0) };
}

/** Returns how many went. */
function removeEvent({ statement, usage }: WriteConnection, owner: string, position: number): number {
  const { rows, bytes } = removedBy(statement("deleteEvent"), [owner, position], ROW_BYTES);
  if (rows > 0) usage.add(owner, { bytes: -bytes });
  return rows;
}

function removeEntries(connection: WriteConnection, rows: readonly Row[], isNeeded = always): Batch {
  let events = 0;
  for (const { owner, position } of rows) {
    if (!isNeeded()) break;
    events += removeEvent(connection, owner as string, Number(position));
    connection.statement("trimOwner").run(owner!, position!);
  }
  return { jobs: 0, events, more: events > 0 };
}

interface Holding {
  readonly owner: string;
  readonly bytes: number;
}

/** Owners that keep more than so many bytes, the largest first. */
async function holdings({ read }: Access, above: number): Promise<readonly Holding[]> {
  const all: Holding[] = [];
  for (;;) {
    const after = all.at(-1)?.owner ?? "";
    const rows = await read(({ statement }) => statement("usagesAbove").all(after, above, OWNERS_AT_A_TIME));
    for (const { owner, bytes } of rows) all.push({ owner: owner as string, bytes: Number(bytes) });
    if (rows.length < OWNERS_AT_A_TIME) return all.sort((a, b) => b.bytes - a.bytes);
  }
}

async function shrinkOwners(
  access: Access,
  { bytes, owner }: NonNullable<PruneRequest["perOwner"]>,
  total: Total,
): Promise<void> {
  const { usage } = access.connection;
  const owners =
    owner === undefined ? (await holdings(access, bytes)).map((holding) => holding.owner) : [toColumn(owner)];
  for (const each of owners) await shrinkOwner(access, each, () => usage.of(each).bytes > bytes, total);
}

/** The file is larger than what is counted, so the bound on the file becomes a bound on what is counted, until it fits. */
async function shrinkStore(access: Access, maxBytes: number, total: Total): Promise<void> {
  const { connection } = access;
  const isOver = () => connection.usedBytes() > maxBytes;
  for (let before = -1; isOver() && total.jobs + total.events > before; ) {
    before = total.jobs + total.events;
    const all = await holdings(access, 0);
    const counted = all.reduce((sum, { bytes }) => sum + bytes, 0);
    const share = fairShare(
      all.map(({ bytes }) => bytes),
      (maxBytes * counted) / connection.usedBytes(),
    );
    for (const { owner, bytes } of all) {
      if (bytes <= share || !isOver()) break;
      await shrinkOwner(access, owner, () => connection.usage.of(owner).bytes > share && isOver(), total);
    }
  }
}

/** Removes what ended first of one owner; without any, the oldest of its events without a job. */
async function shrinkOwner(
  access: Access,
  owner: string,
  isOver: () => boolean,
  total: Total,
): Promise<void> {
  const { connection } = access;
  const { statement } = connection;
  await inBatches(access, total, () => {
    if (!isOver()) return { jobs: 0, events: 0, more: false };
    const jobs = statement("firstEnded").all(owner, JOBS_PER_LOOK);
    if (jobs.length > 0) return removeJobs(connection, jobs, isOver);
    return removeEntries(connection, statement("firstPublished").all(owner, ROWS_PER_BATCH), isOver);
  });
}

/** Story by story, and so many reports in one batch. */
async function compact(access: Access, endedThroughMs: number, total: Total): Promise<void> {
  const { statement } = access.connection;
  await inBatches(access, total, (begin) => {
    let from = begin;
    let room = ROWS_PER_BATCH;
    let events = 0;
    const jobs = statement("wordyJobs").all(endedThroughMs, room);
    for (const { owner, job_id: jobId } of jobs) {
      const rows = statement("reportsOfJob").all(owner!, jobId!, from, ROWS_PER_BATCH);
      const reports = rows.map((row) => ({ position: Number(row.position), stageKey: row.stage_key }));
      const idle = findIdle(reports);
      for (const position of idle) removeEvent(access.connection, owner as string, position);
      const last = idle.at(-1);
      if (last !== undefined) {
        statement("trimJob").run(last, owner!, jobId!);
        statement("trimOwner").run(owner!, last);
      }
      events += idle.length;
      // Whether the last one may go depends on the one behind it.
      from = rows.length < ROWS_PER_BATCH ? 0 : (reports.at(-1)?.position ?? 0);
      if (from === 0) statement("markCompact").run(owner!, jobId!);
      room -= rows.length + 1;
      if (from > 0 || room <= 0) break;
    }
    return { jobs: 0, events, more: jobs.length > 0, from };
  });
}

/** Free pages go back to the disk, a few at a time. */
async function giveBack(access: Access, total: Total): Promise<void> {
  const { connection } = access;
  const free = () => Number(connection.statement("freePages").get()?.freelist_count);
  await inBatches(access, total, () => {
    const before = free();
    if (before > 0) connection.database.exec(`PRAGMA incremental_vacuum(${PAGES_PER_BATCH})`);
    // A file that was made without it keeps its pages, and uses them again.
    return { jobs: 0, events: 0, more: free() < before };
  });
}

function nextOwner({ read }: Access, after: string): Promise<string | undefined> {
  return read(({ statement }) => statement("nextOwner").get(after)?.owner as string | undefined);
}

async function trimLog(access: Access, owner: string, keepEvents: number, total: Total): Promise<void> {
  const { statement } = access.connection;
  const nth = await access.read((reader) =>
    reader.statement("nthNewest").get(owner, Math.max(0, keepEvents - 1)),
  );
  const bound = keepEvents > 0 ? Number(nth?.position ?? 0) : Number.MAX_SAFE_INTEGER;
  await inBatches(access, total, (from) => {
    let events = 0;
    const rows = statement("oldEvents").all(owner, from, bound, ROWS_PER_BATCH);
    const needed = new Map<string, boolean>();
    for (const { position, job_id: jobId } of rows) {
      if (typeof jobId === "string") {
        const isNeeded = needed.get(jobId) ?? statement("jobEnded").get(owner, jobId)?.ended_at === null;
        needed.set(jobId, isNeeded);
        if (isNeeded) continue;
        statement("trimJob").run(position!, owner, jobId);
      }
      events += removeEvent(access.connection, owner, Number(position));
      statement("trimOwner").run(owner, position!);
    }
    const more = rows.length === ROWS_PER_BATCH;
    return { jobs: 0, events, more, from: Number(rows.at(-1)?.position ?? from) };
  });
}
