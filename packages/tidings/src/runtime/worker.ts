/**
 * The loop that runs jobs in this process.
 *
 *   wake ─▶ claim (as many as there are free slots) ─▶ run handler ─▶ settle: complete │ retry │ fail
 *    ▲                                                     │
 *    └── commit somewhere, a delay ran out, a slot free    └─ lease renewed meanwhile; lost or canceled ⇒ abort
 *
 * A worker process is this loop over the same store without a server beside it.
 */
import type { ChangeLimits, Engine, JobRecord, Lease } from "../engine/engine.ts";
import type { Clock, Random } from "../model/clock.ts";
import { TidingsError } from "../model/error.ts";
import type { Attempt } from "./context.ts";
import { createAttempt } from "./context.ts";
import type { AnyJobDefinition, JobOutcome } from "./define-job.ts";
import { completeAttempt, type EndOptions, giveUpAttempt } from "./end-attempt.ts";
import { endsWithin } from "./ends-within.ts";
import { firstOf } from "./first-of.ts";
import type { Holder } from "./holder.ts";
import { isGone } from "./holder.ts";
import { runIsolated } from "./isolate/run-isolated.ts";
import { isLastChance, postpone } from "./last-chance.ts";

/** How soon a cancel from another process is noticed at the latest. */
const CHECK_INTERVAL_MS = 200;
/** How long the worker sleeps at most when nothing wakes it. */
const IDLE_MS = 1_000;
/** For how many leases at most a job on its last chance has the process to itself. */
const ALONE_LEASES = 3;
/** How long a closing worker waits at least for the store to take the running jobs back. */
const HAND_BACK_MS = 1_000;

export interface WorkerOptions {
  readonly engine: Engine;
  readonly jobs: ReadonlyMap<string, AnyJobDefinition>;
  readonly clock: Clock;
  readonly random: Random;
  readonly holder: Holder;
  readonly leaseMs: number;
  /** How many handlers run at once. */
  readonly concurrency: number;
  readonly limits: ChangeLimits;
  readonly onError: (error: unknown, during: string) => void;
}

export interface Worker {
  /** Stops a job's handler here and now, when it runs in this process. */
  abort(jobId: string, why: TidingsError): void;
  /**
   * Hands running jobs back, then gives their handlers up to `graceMs` to return. The store has as long to answer, and
   * at least a second; what it does not take back in that time goes on elsewhere when its lease has run out.
   */
  close(graceMs: number): Promise<void>;
}

interface Running {
  readonly lease: Lease;
  /** On the monotonic clock; later than it, somebody else may have the job. */
  heldUntil: number;
  readonly controller: AbortController;
  /** The handler has returned, whether or not anybody still waited for it. */
  readonly returned: Promise<unknown>;
  /** The end of the attempt is written. */
  readonly settled: Promise<void>;
}

export function createWorker(options: WorkerOptions): Worker {
  const { engine, jobs, clock, random, holder, leaseMs, concurrency, limits } = options;
  const running = new Set<Running>();
  const jobTypes = [...jobs.keys()];
  const closing = new AbortController();
  /** The store did not answer while closing: nothing is begun or told any more. */
  let givenUp = false;
  let claiming: Promise<void> | undefined;
  let claimAgain = false;
  let renewing: Promise<void> | undefined;
  let lastCheckAt = Number.NEGATIVE_INFINITY;
  let lastHoldersAt = Number.NEGATIVE_INFINITY;
  /** A job that may end this process, and until when nothing is begun beside it. */
  let alone: { readonly lease: Lease; readonly until: number } | undefined;
  let cancelNextClaim: (() => void) | undefined;
  let cancelNextCheck: (() => void) | undefined;
  const stopWatching = engine.watch(undefined, onWake);
  const renewMs = Math.max(1, Math.floor(leaseMs / 3));
  let lastTurnAt = clock.monotonic();
  const stopRenewing = every(renewMs, () => {
    noticeBlock();
    check(true);
  });
  void claim();

  const onError: WorkerOptions["onError"] = (error, during) => {
    if (!givenUp) options.onError(error, during);
  };

  function every(ms: number, call: () => void): () => void {
    let cancel = clock.after(ms, function again() {
      call();
      cancel = clock.after(ms, again);
    });
    return () => cancel();
  }

  /** A handler that held the loop for longer than its lease may have lost its job to another process meanwhile. */
  function noticeBlock(): void {
    const heldMs = clock.monotonic() - lastTurnAt - renewMs;
    lastTurnAt = clock.monotonic();
    if (heldMs < leaseMs || running.size === 0) return;
    const seconds = (heldMs / 1_000).toFixed(1);
    onError(
      new TidingsError(
        "LOOP_BLOCKED",
        `The process stood still for ${seconds} s, longer than its leases, while it ran ${jobIdsOf(running)}.`,
        { hint: "Let the handler wait for something now and then, or define its job with isolate." },
      ),
      "renewing leases",
    );
  }

  function onWake(): void {
    void claim();
    check(false);
  }

  function scheduleClaim(ms: number): void {
    cancelNextClaim?.();
    cancelNextClaim = closing.signal.aborted ? undefined : clock.after(ms, () => void claim());
  }

  /** One claim at a time; who asks meanwhile gets another one behind it. */
  function claim(): Promise<void> {
    if (claiming === undefined) {
      claimAgain = false;
      claiming = claimDue().finally(() => {
        claiming = undefined;
        // Somebody asked between the last look and now.
        if (claimAgain) void claim();
      });
    } else {
      claimAgain = true;
    }
    return claiming;
  }

  async function claimDue(): Promise<void> {
    try {
      do {
        claimAgain = false;
        const free = concurrency - running.size;
        if (closing.signal.aborted || free <= 0 || jobTypes.length === 0) break;
        const aloneMs = alone !== undefined && find(alone.lease) ? alone.until - clock.monotonic() : 0;
        if (aloneMs > 0) return scheduleClaim(aloneMs);
        const goneHolders = await findGoneHolders();
        if (!(await holdsAll())) return scheduleClaim(CHECK_INTERVAL_MS);
        const claimedAt = clock.monotonic();
        const claimed = { holder: holder.name, goneHolders, jobTypes, leaseMs, limit: free };
        const { records, nextInMs } = await engine.claim(claimed);
        const chosen = await chooseFrom(records);
        if (givenUp) break;
        for (const record of chosen) launch(record, claimedAt);
        scheduleClaim(Math.min(nextInMs ?? IDLE_MS, IDLE_MS));
      } while (claimAgain);
    } catch (error) {
      if (!closing.signal.aborted) onError(error, "claiming jobs");
      scheduleClaim(IDLE_MS);
    }
  }

  /** Of jobs on their last chance, which may be what ended the process before, one at a time and without company. */
  async function chooseFrom(records: readonly JobRecord[]): Promise<readonly JobRecord[]> {
    // What cannot be read or given back now is run: left alone, it would be lost for good.
    const chances = await Promise.all(
      records.map((record) => isLastChance(engine, record).catch(() => false)),
    );
    const chosen = records[chances.indexOf(true)];
    if (chosen === undefined) return records;
    alone = { lease: leaseOf(chosen), until: clock.monotonic() + ALONE_LEASES * leaseMs };
    const others = records.filter((record) => record !== chosen);
    const kept = await Promise.all(
      others.map((record) =>
        postpone(engine, record).then(
          () => [],
          () => [record],
        ),
      ),
    );
    return [chosen, ...kept.flat()];
  }

  async function findGoneHolders(): Promise<readonly string[]> {
    if (clock.monotonic() - lastHoldersAt < IDLE_MS) return [];
    lastHoldersAt = clock.monotonic();
    return (await engine.holders()).filter((name) => name !== holder.name && isGone(name));
  }

  /** Renews all leases, soon or now. */
  function check(now: boolean): void {
    if (running.size === 0 || renewing !== undefined) return;
    const wait = lastCheckAt + CHECK_INTERVAL_MS - clock.monotonic();
    if (!now && wait > 0) {
      cancelNextCheck ??= clock.after(wait, () => {
        cancelNextCheck = undefined;
        check(true);
      });
      return;
    }
    void renew();
  }

  /** A lease that is no longer held (canceled, taken over) stops its handler. */
  function renew(): Promise<void> {
    renewing ??= renewNow()
      .catch((error: unknown) => onError(error, "renewing leases"))
      .finally(() => {
        renewing = undefined;
      });
    return renewing;
  }

  async function renewNow(): Promise<void> {
    const begunAt = clock.monotonic();
    lastCheckAt = begunAt;
    const asked = [...running];
    const lost = await engine.renew(
      asked.map(({ lease }) => lease),
      leaseMs,
    );
    for (const attempt of asked) {
      const { jobId, fence } = attempt.lease;
      if (!lost.some((lease) => lease.jobId === jobId && lease.fence === fence)) {
        attempt.heldUntil = begunAt + leaseMs;
        continue;
      }
      attempt.controller.abort(leaseLost(jobId));
    }
  }

  /** Whether the lease is held, or known to be lost: somebody else may have it once it ran out. */
  function isCertain({ heldUntil, controller }: Running): boolean {
    return clock.monotonic() < heldUntil || controller.signal.aborted;
  }

  /** Before a write: finds out whose the job is when its lease may have run out, as when the loop was blocked. */
  function confirmLease(lease: Lease): Promise<void> | undefined {
    const attempt = find(lease);
    if (attempt === undefined || clock.monotonic() < attempt.heldUntil) return undefined;
    noticeBlock();
    // One that is under way may have been asked before the lease ran out.
    return renew().then(() => (isCertain(attempt) ? undefined : renew()));
  }

  /** Before a claim: it would take a job whose lease has run out, also from the handler that runs it here. */
  async function holdsAll(): Promise<boolean> {
    const areCertain = (): boolean => [...running].every(isCertain);
    if (areCertain()) return true;
    noticeBlock();
    await renew();
    if (!areCertain()) await renew();
    return areCertain();
  }

  function find({ jobId, fence }: Lease): Running | undefined {
    return [...running].find(({ lease }) => lease.jobId === jobId && lease.fence === fence);
  }

  function launch(record: JobRecord, claimedAt: number): void {
    const { jobId, jobType } = record.job;
    const definition = jobs.get(jobType);
    if (definition === undefined) return;
    const controller = new AbortController();
    const lease = leaseOf(record);
    const { signal } = controller;
    const onLost = (error: TidingsError): void => controller.abort(error);
    const attempt = createAttempt({
      ...{ engine, clock, definition, record, limits, signal, onLost },
      confirmLease: () => confirmLease(lease),
    });
    const shared = { engine, clock, random, limits, leaseMs, closing: closing.signal };
    const end = { ...shared, definition, record, attempt };
    // An attempt whose lease was lost may still run here: its job never has two handlers in one process.
    const before = [...running].filter((other) => other.lease.jobId === jobId);
    for (const { controller: former } of before) former.abort(leaseLost(jobId));
    const formerEnded = Promise.all(before.map(({ returned }) => returned));
    const handling = (before.length === 0 ? formerEnded : endsWithin(formerEnded, leaseMs, clock)).then(() =>
      handle(record, definition, attempt, signal),
    );
    const returned = handling.catch(() => undefined);
    const settled = run(end, handling, controller)
      .catch((error: unknown) => onError(error, `settling job ${jobId}`))
      .finally(() => {
        running.delete(entry);
        void claim();
      });
    const entry: Running = { lease, heldUntil: claimedAt + leaseMs, controller, settled, returned };
    running.add(entry);
  }

  async function handle(
    record: JobRecord,
    definition: AnyJobDefinition,
    attempt: Attempt,
    signal: AbortSignal,
  ): Promise<JobOutcome | undefined> {
    const { isolation } = definition;
    if (isolation !== undefined && engine.location !== undefined) {
      const { adopt } = attempt;
      return runIsolated({ isolation, store: engine.location, record, limits, signal, clock, adopt });
    }
    return (await definition.run(record.input as never, attempt.context)) ?? undefined;
  }

  async function run(
    end: EndOptions,
    handling: Promise<JobOutcome | undefined>,
    controller: AbortController,
  ): Promise<void> {
    const { attempt, definition, record } = end;
    const { jobId } = record.job;
    const { signal } = controller;
    const cancelTimeout = clock.after(definition.timeoutMs, () =>
      controller.abort(
        new TidingsError(
          "JOB_TIMEOUT",
          `An attempt of job ${jobId} took longer than ${definition.timeoutMs / 1000} s.`,
        ),
      ),
    );
    try {
      const outcome = await firstOf(handling, signal);
      // A handler may have left calls without awaiting them: they come before its end.
      await firstOf(attempt.written(), signal);
      const confirming = confirmLease(leaseOf(record));
      if (confirming !== undefined) await firstOf(confirming, signal);
      await completeAttempt(end, outcome ?? {});
    } catch (thrown) {
      await giveUpAttempt(end, signal.aborted ? { stopped: signal.reason } : { thrown });
    } finally {
      cancelTimeout();
      attempt.end();
    }
  }

  /** Stops the handlers that run now, and adds their attempts to `stopped`. */
  function stopAll(stopped: Set<Running>): void {
    for (const attempt of running) {
      stopped.add(attempt);
      attempt.controller.abort(
        new TidingsError(
          "WORKER_STOPPED",
          `The process that ran job ${attempt.lease.jobId} is shutting down; another attempt follows.`,
        ),
      );
    }
  }

  async function handBack(stopped: Set<Running>): Promise<void> {
    stopAll(stopped);
    // What a claim under way still brings is handed back like the rest.
    await claiming;
    stopAll(stopped);
    await Promise.all([...stopped].map(({ settled }) => settled));
  }

  return {
    abort(jobId, why) {
      for (const { lease, controller } of running) if (lease.jobId === jobId) controller.abort(why);
    },
    async close(graceMs) {
      closing.abort();
      stopWatching();
      stopRenewing();
      cancelNextClaim?.();
      cancelNextCheck?.();
      const stopped = new Set<Running>();
      const patienceMs = Math.max(graceMs, HAND_BACK_MS);
      if (!(await endsWithin(handBack(stopped), patienceMs))) {
        givenUp = true;
        options.onError(notAnswered(patienceMs, running), "handing jobs back");
      }
      const returned = Promise.all([...stopped].map((attempt) => attempt.returned));
      if (graceMs > 0) await endsWithin(returned, graceMs, clock);
    },
  };
}

function leaseOf({ owner, job: { jobId }, fence }: JobRecord): Lease {
  return { owner, jobId, fence };
}

function jobIdsOf(running: Iterable<Running>): string {
  return [...running].map(({ lease }) => lease.jobId).join(", ");
}

function leaseLost(jobId: string): TidingsError {
  return new TidingsError("LEASE_LOST", `Job ${jobId} is no longer this handler's.`);
}

function notAnswered(ms: number, running: ReadonlySet<Running>): TidingsError {
  const jobs = running.size === 0 ? "a claim under way" : jobIdsOf(running);
  return new TidingsError(
    "STORE_FAILED",
    `The store did not answer for ${ms / 1_000} s while the worker closed, so it is not known whether it took back ${jobs}.`,
    { hint: "Nothing is lost: what it did not take back goes on elsewhere when its lease has run out." },
  );
}
