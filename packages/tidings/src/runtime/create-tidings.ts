/** Puts a store, job types and workers together. */
import { createCursorSeal } from "../engine/cursor.ts";
import type { Engine, JobRecord, PruneRequest, StartOutcome } from "../engine/engine.ts";
import { toJson } from "../engine/json.ts";
import { checkBytes } from "../engine/limits.ts";
import { openEngine } from "../engine/open-engine.ts";
import { systemClock, systemRandom } from "../engine/system-clock.ts";
import type { Clock, Random } from "../model/clock.ts";
import { toTimestamp } from "../model/clock.ts";
import { TidingsError } from "../model/error.ts";
import { ENVELOPE_FIELDS } from "../model/event.ts";
import { readEvent } from "../model/projection/read.ts";
import { findProblem, object } from "../model/schema.ts";
import { validate } from "../model/standard-schema.ts";
import { checkOptions } from "./check-options.ts";
import type { AnyJobDefinition } from "./define-job.ts";
import { digestOf } from "./digest.ts";
import { endsWithin } from "./ends-within.ts";
import { createHealth } from "./health.ts";
import { createHolder } from "./holder.ts";
import { createHub } from "./hub.ts";
import { park } from "./isolate/role.ts";
import { byType, checkIsolation } from "./job-types.ts";
import type { Limits } from "./limits.ts";
import { changeLimitsOf, queueLimitOf, readLimits } from "./limits.ts";
import { printError } from "./print-error.ts";
import { type Asked, badCursor, jobNotFound, refusalOf } from "./refusal.ts";
import { retryJob } from "./retry-job.ts";
import type { JobSnapshot } from "./snapshot.ts";
import { snapshotOf } from "./snapshot.ts";
import { createSweeper } from "./sweeper.ts";
import { tailLog } from "./tail.ts";
import type { StartAnswer, Tidings } from "./tidings.ts";
import type { Worker } from "./worker.ts";
import { createWorker } from "./worker.ts";

export interface TidingsOptions {
  /** `memory:`, `sqlite:PATH`, or an engine that you opened. */
  readonly store: string | Engine;
  /** The job types that this process knows. */
  readonly jobs: readonly AnyJobDefinition[];
  /** How many handlers run at once in this process; 0 = none, when workers run elsewhere. Default 4. */
  readonly concurrency?: number;
  /** How long a silent worker keeps its jobs, in milliseconds. Default 10 000. */
  readonly leaseMs?: number;
  /** How long an ended job, and an event that concerns no job, is kept, in milliseconds. Default 7 days. Values are kept until they are deleted, or as long as `put` says. */
  readonly retentionMs?: number;
  /** How much the store may hold, in bytes; beyond it ended jobs go, of the owners that keep the most, the oldest first. Default: no limit. */
  readonly retentionBytes?: number;
  /** How long after a job's end the progress between its stages is kept, in milliseconds. Default 1 hour. */
  readonly compactAfterMs?: number;
  /** Whether this process removes what is no longer kept. Default true; false for programs that only look. */
  readonly sweep?: boolean;
  /** What one owner and one job may take. Default: see `Limits`. */
  readonly limits?: Partial<Limits>;
  readonly clock?: Clock;
  readonly random?: Random;
  /** Hears of faults that no caller can be told of. Default: one JSON line on stderr. */
  readonly onError?: (error: unknown, during: string) => void;
}

const START_OPTIONS = object(
  {},
  { idempotencyKey: ENVELOPE_FIELDS.eventId, correlationId: ENVELOPE_FIELDS.correlationId },
);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const LONGEST_TIMER_MS = 2_147_483_647;
const DEFAULT_LIMIT = 100;
/** Longer than a store waits for writers of other processes and callbacks that it has begun. */
const STORE_CLOSE_MS = 10_000;

/**
 * Opens the store and begins to work.
 *
 * @throws TidingsError BAD_DEFINITION for two jobs of one type, an isolated job on a store that its process cannot open,
 *   and options out of their range; STORE_FAILED, STORE_BUSY or STORE_TOO_NEW when the store cannot be opened.
 */
export async function createTidings(options: TidingsOptions): Promise<Tidings> {
  const parked = park();
  if (parked !== undefined) return parked;
  const clock = options.clock ?? systemClock;
  const random = options.random ?? systemRandom;
  const onFault = options.onError ?? printError;
  checkOptions(options);
  const leaseMs = options.leaseMs ?? 10_000;
  const jobs = byType(options.jobs);
  const { retentionBytes } = options;
  const stored = retentionBytes === undefined ? {} : { storedBytesPerOwner: retentionBytes };
  const limits = readLimits({ ...stored, ...options.limits });
  const queue = queueLimitOf(limits);
  const changeLimits = changeLimitsOf(limits);
  const store =
    typeof options.store === "string" ? await openEngine(options.store, { clock, random }) : options.store;
  if (options.concurrency !== 0) await checkIsolation(jobs, store);
  const sealOf = (owner: string) => createCursorSeal(store.secret, owner);
  const hub = createHub({ engine: store, sealOf: (owner) => sealOf(owner).seal, onError: onFault });
  const prune: Tidings["prune"] = (request) => store.prune(request);
  const retention: PruneRequest = {
    olderThanMs: options.retentionMs ?? 7 * DAY_MS,
    compactAfterMs: options.compactAfterMs ?? HOUR_MS,
    ...(retentionBytes === undefined ? {} : { maxBytes: retentionBytes }),
    ...(Number.isFinite(limits.storedBytesPerOwner)
      ? { perOwner: { bytes: limits.storedBytesPerOwner } }
      : {}),
  };
  const health = createHealth({
    engine: store,
    clock,
    random,
    announce: hub.announce,
    makeRoom: () => prune(retention),
    onError: onFault,
  });
  const { engine } = health;
  // Said once, when it begins; until it is over every write would say it again.
  const onError: typeof onFault = (error, during) => {
    if (!(error instanceof TidingsError && error.code === "STORE_FULL")) onFault(error, during);
  };
  const holder = createHolder(random);
  const worker: Worker | undefined =
    options.concurrency === 0
      ? undefined
      : createWorker({
          engine,
          jobs,
          clock,
          random,
          holder,
          leaseMs,
          concurrency: options.concurrency ?? 4,
          limits: changeLimits,
          onError,
        });
  const sweeper =
    options.sweep === false ? undefined : createSweeper({ sweep: () => prune(retention), clock, onError });
  // No timer of ours holds a process open, but an open store does, until it is closed.
  const anchor = setInterval(() => undefined, LONGEST_TIMER_MS);
  let closed: Promise<void> | undefined;

  function openCursor(owner: string, cursor: string): number {
    const position = typeof cursor === "string" ? sealOf(owner).open(cursor) : undefined;
    if (position === undefined) throw badCursor();
    return position;
  }

  /** The position to go on after; a cursor from another life of the store, beyond its end, is no cursor of ours. */
  async function resolveAfter(owner: string, cursor: string | undefined): Promise<number> {
    if (cursor === undefined) return 0;
    const position = openCursor(owner, cursor);
    if (position > (await headOf(owner))) throw badCursor();
    return position;
  }

  async function headOf(owner: string): Promise<number> {
    return (await engine.read(owner, { jobIds: [] }, Number.MAX_SAFE_INTEGER, 1)).head;
  }

  async function findRecord(owner: string, jobId: string): Promise<JobRecord | undefined> {
    return typeof jobId === "string" ? engine.get(owner, jobId) : undefined;
  }

  async function recordOf(owner: string, jobId: string): Promise<JobRecord> {
    const record = await findRecord(owner, jobId);
    if (record === undefined) throw jobNotFound();
    return record;
  }

  function snapshot(record: JobRecord): JobSnapshot {
    return snapshotOf(record, sealOf(record.owner).seal(record.position));
  }

  function answer(record: JobRecord): StartAnswer {
    const { jobId, status } = record.job;
    return { jobId, status, cursor: sealOf(record.owner).seal(record.birth) };
  }

  function started(outcome: StartOutcome, asked: Asked): StartAnswer {
    if (outcome.outcome === "created" || outcome.outcome === "existing") return answer(outcome.record);
    throw refusalOf(outcome, asked, limits);
  }

  const tidings: Tidings = {
    store: engine.name,
    jobs,

    async start(job, input, { owner = "local", idempotencyKey, correlationId } = {}) {
      const definition = jobs.get(job.type);
      if (definition === undefined) {
        throw new TidingsError("JOB_TYPE_UNKNOWN", `No job of type "${job.type}" is registered here.`, {
          hint: "Add it to the jobs of createTidings.",
        });
      }
      const valid = validate(job.input, input, job.type);
      if (valid.problem !== undefined) {
        throw new TidingsError(
          "BAD_INPUT",
          `The input of "${job.type}" was not accepted: ${valid.problem}.`,
          {
            hint: "Correct the named fields and try again.",
          },
        );
      }
      const problem = findProblem(START_OPTIONS, { idempotencyKey, correlationId }, "options");
      if (problem !== undefined) {
        throw new TidingsError("BAD_INPUT", `The start of "${job.type}" was not accepted: ${problem}.`);
      }
      const what = `The input of "${job.type}"`;
      const text = toJson(valid.value, what);
      checkBytes(text, limits.inputBytes, what);
      const json: unknown = JSON.parse(text);
      const outcome = await engine.start({
        owner,
        jobId: definition.idPrefix + random.id(),
        jobType: job.type,
        input: json,
        digest: digestOf([job.type, json]),
        counts: definition.counts,
        maxAttempts: definition.attempts,
        queue,
        limits: changeLimits,
        ...(idempotencyKey === undefined ? {} : { key: idempotencyKey }),
        ...(correlationId === undefined ? {} : { correlationId }),
        ...summaryOf(job, valid.value),
      });
      return started(outcome, idempotencyKey === undefined ? {} : { key: idempotencyKey });
    },

    async get(owner, jobId) {
      return snapshot(await recordOf(owner, jobId));
    },

    async find(owner, jobId) {
      const record = await findRecord(owner, jobId);
      return record === undefined ? undefined : snapshot(record);
    },

    async list(owner, { status, correlationId, cursor, limit = 50 } = {}) {
      const purpose = `jobs:${JSON.stringify([status ?? null, correlationId ?? null])}`;
      const before = cursor === undefined ? undefined : tidings.openPage(owner, purpose, cursor);
      const records = await engine.list(owner, {
        limit: limit + 1,
        ...(status === undefined ? {} : { status }),
        ...(correlationId === undefined ? {} : { correlationId }),
        ...(before === undefined ? {} : { before }),
      });
      const page = records.slice(0, limit);
      const last = page.at(-1);
      return {
        jobs: page.map(snapshot),
        ...(records.length > limit && last
          ? { nextCursor: tidings.sealPage(owner, purpose, last.birth) }
          : {}),
      };
    },

    async cancel(owner, jobId, { canceledBy, reason }) {
      await recordOf(owner, jobId);
      const command = { type: "cancel", canceledBy, ...(reason === undefined ? {} : { reason }) } as const;
      const outcome = await engine.apply({ owner, jobId, command, limits: changeLimits });
      if (outcome.outcome === "unknown") throw jobNotFound();
      if (outcome.outcome === "applied")
        worker?.abort(jobId, new TidingsError("JOB_CANCELED", `Job ${jobId} was canceled.`));
      return snapshot(outcome.record);
    },

    async retry(owner, jobId) {
      const old = await recordOf(owner, jobId);
      const { jobType } = old.job;
      const definition = jobs.get(jobType);
      if (definition === undefined) {
        throw new TidingsError(
          "JOB_TYPE_UNKNOWN",
          `No job of type "${jobType}" is registered here, so ${jobId} cannot be retried.`,
        );
      }
      const outcome = await retryJob(old, { engine, random, definition, queue, limits: changeLimits });
      return started(outcome, { jobId });
    },

    async result(owner, jobId) {
      const { job } = await recordOf(owner, jobId);
      return engine.document(owner, job.jobId, "result");
    },

    async items(owner, jobId, collection, { offset, limit }) {
      await recordOf(owner, jobId);
      return engine.items(owner, jobId, collection, offset, limit);
    },

    async read({ owner, after, limit = DEFAULT_LIMIT, ...filter }) {
      const position = await resolveAfter(owner, after);
      const reading = await engine.read(owner, filter, position, limit);
      const { seal } = sealOf(owner);
      return {
        events: reading.entries.map(({ event, position: at }) => ({ event, cursor: seal(at) })),
        cursor: seal(Math.max(position, reading.through)),
        truncated: reading.truncated,
        hasMore: reading.through < reading.head && reading.entries.length >= limit,
      };
    },

    async head(owner) {
      return sealOf(owner).seal(await headOf(owner));
    },

    async subscribe({ owner, after, ...filter }, subscriber) {
      const from = typeof after === "object" ? await headOf(owner) : await resolveAfter(owner, after);
      return hub.subscribe(owner, filter, from, subscriber);
    },

    tail({ signal, ...request }) {
      return tailLog((subscriber) => tidings.subscribe(request, subscriber), signal);
    },

    watch: (owner, wake) => store.watch(owner, wake),

    async publish(draft, { owner = "local", source, resourceId, correlationId, eventId }) {
      const { "~custom": _, ...fields } = draft as typeof draft & { "~custom"?: true };
      const read = readEvent({
        source,
        resourceId,
        ...fields,
        correlationId,
        eventId: eventId ?? `evt_${random.id()}`,
        timestamp: toTimestamp(clock.now()),
      });
      const { type, jobId, seq } = read.kind === "event" ? read.event : { type: draft.type };
      if (read.kind !== "event" || type.startsWith("job.") || jobId !== undefined || seq !== undefined) {
        const problem = read.kind === "invalid" ? read.problem : "events of a job come from its handler";
        throw new TidingsError("BAD_EVENT", `The event "${draft.type}" was not published: ${problem}.`);
      }
      // One that the log had already is not written again: it comes back as it stands there.
      const [entry] = await engine.publish(owner, [read.event], changeLimits);
      if (entry === undefined)
        throw new TidingsError("INTERNAL", `The event "${draft.type}" was not written.`);
      return { event: entry.event, cursor: sealOf(owner).seal(entry.position) };
    },

    prune,
    health: health.report,

    transaction: (owner, work) => engine.transaction(owner, work),

    sealPage: (owner, purpose, offset) =>
      createCursorSeal(engine.secret, owner, `page:${purpose}`).seal(offset),

    openPage(owner, purpose, cursor) {
      const offset =
        typeof cursor === "string"
          ? createCursorSeal(engine.secret, owner, `page:${purpose}`).open(cursor)
          : undefined;
      if (offset === undefined) throw badCursor();
      return offset;
    },

    close({ graceMs = 5_000 } = {}) {
      closed ??= (async () => {
        sweeper?.close();
        health.close();
        await worker?.close(graceMs);
        holder.release();
        const isClosed = endsWithin(engine.close(), STORE_CLOSE_MS);
        if (!(await isClosed.finally(() => clearInterval(anchor)))) throw notClosed(engine.name);
      })();
      return closed;
    },
  };

  return tidings;
}

function notClosed(store: string): TidingsError {
  const seconds = STORE_CLOSE_MS / 1_000;
  return new TidingsError("STORE_FAILED", `The store "${store}" did not close within ${seconds} s.`, {
    hint: "End the process: what was acknowledged is kept.",
  });
}

function summaryOf(job: AnyJobDefinition, input: unknown): { summary?: string } {
  const summary = job.summary?.(input);
  return summary === undefined ? {} : { summary };
}
