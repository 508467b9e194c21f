/**
 * The reference engine: everything in this process's memory, gone when it ends. It says in the plainest way what an
 * engine does; the other engines are compared with it.
 *
 * Writes run one after the other. Each stages what it is going to change and commits it in one synchronous step, so
 * that no reader sees half of it and an error leaves nothing behind.
 */
import { createHash } from "node:crypto";
import type { Clock, Random } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import { hasEnded } from "../../model/job.ts";
import { createCallbackScope } from "../callback-scope.ts";
import type {
  Change,
  ChangeOutcome,
  ClaimOutcome,
  Engine,
  PruneRequest,
  StartOutcome,
  StartRequest,
} from "../engine.ts";
import { fromJson } from "../json.ts";
import { createStarter } from "../start-with-room.ts";
import {
  changeJob,
  claimJob,
  isDue,
  isFull,
  isOverQuota,
  keepPublished,
  momentOf,
  startJob,
  type Transition,
  waitFor,
} from "../transition.ts";
import { createWatchers } from "../watchers.ts";
import { JOB_BYTES } from "../weight.ts";
import { prune } from "./prune.ts";
import { list, read } from "./read.ts";
import {
  addBytes,
  bareRecord,
  countWaiting,
  createState,
  findJob,
  fullRecord,
  keepDocuments,
  logOf,
  type MemoryJob,
  ownerOf,
} from "./state.ts";
import { createStage } from "./transaction.ts";

/** Creates an engine that keeps everything in this process's memory. */
export function createMemoryEngine({ clock, random }: { clock: Clock; random: Random }): Engine {
  const state = createState();
  const watchers = createWatchers();
  const scope = createCallbackScope(clock);
  const secret = createHash("sha256").update(random.id()).digest().subarray(0, 16);
  let writing: Promise<unknown> = Promise.resolve();
  let closed = false;

  const checkOpen = () => {
    if (!closed) return;
    throw new TidingsError(
      "STORE_CLOSED",
      "The store in memory was closed, so nothing can be read or written.",
      {
        hint: "Create the server's tidings again, or close it later.",
      },
    );
  };
  const write = async <T>(work: () => T | Promise<T>): Promise<T> => {
    checkOpen();
    scope.refuseInside();
    const run = writing.then(work);
    writing = run.catch(() => {});
    return run;
  };
  const commit = (owner: string, memoryJob: MemoryJob, transition: Transition) => {
    const entries = logOf(state, owner).add(transition.events);
    const { record } = transition.kept;
    const step =
      Number(record.job.status === "pending") - Number(memoryJob.kept.record.job.status === "pending");
    if (step !== 0) countWaiting(ownerOf(state, owner), memoryJob, step);
    memoryJob.kept = {
      ...transition.kept,
      record: { ...record, position: entries.at(-1)?.position ?? record.position },
    };
    keepDocuments(ownerOf(state, owner), memoryJob, transition.documents);
    if (hasEnded(record.job.status)) {
      memoryJob.endedAtMs ??= clock.now();
      state.open.delete(memoryJob);
    } else state.open.add(memoryJob);
    return entries;
  };

  const start = (request: StartRequest) =>
    write((): StartOutcome => {
      const owner = ownerOf(state, request.owner);
      const known = request.key === undefined ? undefined : owner.jobs.get(owner.keys.get(request.key) ?? "");
      if (known !== undefined) {
        const outcome = known.digest === request.digest ? "existing" : "conflict";
        return { outcome, record: bareRecord(known) };
      }
      const origin = request.retryOf === undefined ? undefined : owner.jobs.get(request.retryOf);
      if (request.retryOf !== undefined) {
        if (origin === undefined) return { outcome: "unknown" };
        const record = bareRecord(origin);
        if (!hasEnded(record.job.status)) return { outcome: "not_ended", record };
        const successor = owner.jobs.get(record.retriedAs ?? "");
        if (successor !== undefined) return { outcome: "existing", record: bareRecord(successor) };
      }
      if (owner.jobs.has(request.jobId)) {
        throw new TidingsError("BAD_INPUT", `A job with the id "${request.jobId}" exists already.`);
      }
      const transition = startJob(request, momentOf(clock));
      if (request.queue !== undefined) {
        const inputBytes = Buffer.byteLength(transition.documents.input ?? "");
        const { waiting, bytes } = owner;
        if (isFull(request.queue, waiting, inputBytes)) return { outcome: "full", ...waiting };
        if (isOverQuota(bytes, inputBytes, request.queue)) return { outcome: "over", bytes };
      }
      const memoryJob: MemoryJob = {
        kept: transition.kept,
        digest: request.digest,
        key: request.key,
        documents: {},
        collections: new Map(),
        trimmedThrough: 0,
        bytes: 0,
      };
      addBytes(owner, memoryJob, JOB_BYTES);
      const birth = state.position;
      commit(request.owner, memoryJob, transition);
      countWaiting(owner, memoryJob, 1);
      memoryJob.kept = { ...memoryJob.kept, record: { ...memoryJob.kept.record, birth } };
      owner.jobs.set(request.jobId, memoryJob);
      if (request.key !== undefined) owner.keys.set(request.key, request.jobId);
      if (origin !== undefined) {
        const record = { ...origin.kept.record, retriedAs: request.jobId };
        origin.kept = { ...origin.kept, record };
      }
      watchers.wake([request.owner]);
      return { outcome: "created", record: bareRecord(memoryJob) };
    });

  const forget = (request: PruneRequest) => write(() => prune(state, request, clock.now()));

  return {
    name: "memory",
    secret,

    start: createStarter(start, forget),

    claim: (request) =>
      write((): ClaimOutcome => {
        const moment = momentOf(clock);
        const { monotonicMs } = moment;
        const candidates = [...state.open]
          .filter(({ kept }) => request.jobTypes.includes(kept.record.job.jobType))
          .sort((a, b) => a.kept.record.birth - b.kept.record.birth);
        const due = candidates.filter(({ kept }) => isDue(kept, request.goneHolders, monotonicMs));
        const claimed: MemoryJob[] = [];
        const touched = new Set<string>();
        while (claimed.length < request.limit) {
          const next = due.shift();
          if (next === undefined) break;
          const { owner } = next.kept.record;
          commit(owner, next, claimJob(next.kept, request, moment));
          touched.add(owner);
          if (next.kept.record.job.status === "running") claimed.push(next);
        }
        watchers.wake(touched);
        const records = claimed.map(fullRecord);
        if (due.length > 0) return { records, nextInMs: 0 };
        const untils = candidates
          .filter((job) => !claimed.includes(job) && !hasEnded(job.kept.record.job.status))
          .map(({ kept }) => kept.wait.until);
        return untils.length === 0 ? { records } : { records, nextInMs: Math.min(...untils) - monotonicMs };
      }),

    renew: (leases, leaseMs) =>
      write(() => {
        const moment = momentOf(clock);
        return leases.filter(({ owner, jobId, fence }) => {
          const memoryJob = findJob(state, owner, jobId);
          const record = memoryJob?.kept.record;
          if (memoryJob === undefined || record?.job.status !== "running" || record.fence !== fence)
            return true;
          memoryJob.kept = { ...memoryJob.kept, wait: waitFor(leaseMs, moment) };
          return false;
        });
      }),

    apply: (change: Change) =>
      write(async (): Promise<ChangeOutcome> => {
        const { owner, jobId, write: callback } = change;
        const memoryJob = findJob(state, owner, jobId);
        if (memoryJob === undefined) return { outcome: "unknown" };
        const verdict = changeJob(memoryJob.kept, change, momentOf(clock));
        if (verdict.outcome !== "applied") return { ...verdict, record: bareRecord(memoryJob) };
        const stage = createStage(ownerOf(state, owner), clock.now(), memoryJob, change.limits?.itemBytes);
        if (callback !== undefined) await scope.run((check) => callback(stage.transaction(check)));
        stage.commit();
        const entries = commit(owner, memoryJob, verdict);
        watchers.wake([owner]);
        return { outcome: "applied", record: bareRecord(memoryJob), entries };
      }),

    async get(owner, jobId) {
      checkOpen();
      const memoryJob = findJob(state, owner, jobId);
      return memoryJob === undefined ? undefined : bareRecord(memoryJob);
    },
    async document(owner, jobId, name) {
      checkOpen();
      return fromJson(findJob(state, owner, jobId)?.documents[name]);
    },
    async list(owner, request) {
      checkOpen();
      return list(state, owner, request);
    },
    async read(owner, filter, after, limit) {
      checkOpen();
      return read(state, owner, filter, after, limit);
    },
    async items(owner, jobId, collection, offset, limit) {
      checkOpen();
      const all = findJob(state, owner, jobId)?.collections.get(collection) ?? [];
      const items = all.slice(Math.max(0, offset), Math.max(0, offset) + Math.max(0, limit));
      return { items: items.map(fromJson), total: all.length };
    },

    publish: (owner, events, limit) =>
      write(() => {
        const log = logOf(state, owner);
        const before = state.position;
        const entries = keepPublished(events, limit).map((event) => log.find(event) ?? log.add([event])[0]!);
        if (state.position > before) watchers.wake([owner]);
        return entries;
      }),

    transaction: (owner, work) =>
      write(async () => {
        const stage = createStage(ownerOf(state, owner), clock.now());
        const answer = await scope.run((check) => work(stage.transaction(check)));
        if (stage.commit()) watchers.wake([owner]);
        return answer;
      }),

    watch(owner, wake) {
      checkOpen();
      return watchers.add(owner, wake);
    },
    async holders() {
      checkOpen();
      const holders = [...state.open].map(({ kept }) => kept.holder);
      return [...new Set(holders.filter((holder) => holder !== undefined))];
    },
    prune: forget,
    async close() {
      closed = true;
      watchers.clear();
      await writing;
    },
  };
}
