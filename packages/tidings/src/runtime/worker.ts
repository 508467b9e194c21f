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
import type { Command } from "../model/command.ts";
import { TidingsError } from "../model/error.ts";
import { boundariesBetween } from "../model/progress.ts";
import { backoffMs } from "./backoff.ts";
import type { Attempt } from "./context.ts";
import { createAttempt, withEffects } from "./context.ts";
import type { AnyJobDefinition, JobOutcome } from "./define-job.ts";
import { RetryAfter } from "./error.ts";
import { describeFailure } from "./failure.ts";
import type { Holder } from "./holder.ts";
import { isGone } from "./holder.ts";
import { runIsolated } from "./isolate/run-isolated.ts";

/** How soon a cancel from another process is noticed at the latest. */
const CHECK_INTERVAL_MS = 200;
/** How long the worker sleeps at most when nothing wakes it. */
const IDLE_MS = 1_000;

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
  /** Hands running jobs back, then gives their handlers up to `graceMs` to return. */
  close(graceMs: number): Promise<void>;
}

interface Running {
  readonly lease: Lease;
  readonly controller: AbortController;
  /** The handler has returned, whether or not anybody still waited for it. */
  readonly returned: Promise<unknown>;
  /** The end of the attempt is written. */
  readonly settled: Promise<void>;
}

export function createWorker(options: WorkerOptions): Worker {
  const { engine, jobs, clock, random, holder, leaseMs, concurrency, limits, onError } = options;
  const running = new Map<string, Running>();
  const jobTypes = [...jobs.keys()];
  let closing = false;
  let claiming: Promise<void> | undefined;
  let claimAgain = false;
  let checking = false;
  let lastCheckAt = Number.NEGATIVE_INFINITY;
  let lastHoldersAt = Number.NEGATIVE_INFINITY;
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
        `The process stood still for ${seconds} s, longer than its leases, while it ran ${[...running.keys()].join(", ")}.`,
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
    cancelNextClaim = closing ? undefined : clock.after(ms, () => void claim());
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
        if (closing || free <= 0 || jobTypes.length === 0) break;
        const outcome = await engine.claim({
          holder: holder.name,
          goneHolders: await findGoneHolders(),
          jobTypes,
          leaseMs,
          limit: free,
        });
        for (const record of outcome.records) launch(record);
        scheduleClaim(Math.min(outcome.nextInMs ?? IDLE_MS, IDLE_MS));
      } while (claimAgain);
    } catch (error) {
      if (!closing) onError(error, "claiming jobs");
      scheduleClaim(IDLE_MS);
    }
  }

  async function findGoneHolders(): Promise<readonly string[]> {
    if (clock.monotonic() - lastHoldersAt < IDLE_MS) return [];
    lastHoldersAt = clock.monotonic();
    return (await engine.holders()).filter((name) => name !== holder.name && isGone(name));
  }

  /** Renews all leases; a lease that is no longer held (canceled, taken over) stops its handler. */
  function check(now: boolean): void {
    if (running.size === 0 || checking) return;
    const wait = lastCheckAt + CHECK_INTERVAL_MS - clock.monotonic();
    if (!now && wait > 0) {
      cancelNextCheck ??= clock.after(wait, () => {
        cancelNextCheck = undefined;
        check(true);
      });
      return;
    }
    checking = true;
    lastCheckAt = clock.monotonic();
    engine
      .renew(
        [...running.values()].map(({ lease }) => lease),
        leaseMs,
      )
      .then((lost) => {
        for (const { jobId, fence } of lost) {
          const attempt = running.get(jobId);
          if (attempt?.lease.fence !== fence) continue;
          attempt.controller.abort(
            new TidingsError("LEASE_LOST", `Job ${jobId} is no longer this handler's.`),
          );
        }
      })
      .catch((error: unknown) => onError(error, "renewing leases"))
      .finally(() => {
        checking = false;
      });
  }

  function launch(record: JobRecord): void {
    const { jobId, jobType } = record.job;
    const definition = jobs.get(jobType);
    if (definition === undefined) return;
    const controller = new AbortController();
    const lease = { owner: record.owner, jobId, fence: record.fence };
    const { signal } = controller;
    const onLost = (error: TidingsError): void => controller.abort(error);
    const attempt = createAttempt({ engine, clock, definition, record, limits, signal, onLost });
    const handling = handle(record, definition, attempt, signal);
    const settled = run(record, definition, attempt, handling, controller)
      .catch((error: unknown) => onError(error, `settling job ${jobId}`))
      .finally(() => {
        running.delete(jobId);
        void claim();
      });
    running.set(jobId, { lease, controller, settled, returned: handling.catch(() => undefined) });
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
    record: JobRecord,
    definition: AnyJobDefinition,
    attempt: Attempt,
    handling: Promise<JobOutcome | undefined>,
    controller: AbortController,
  ): Promise<void> {
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
      await complete(record, definition, attempt, outcome ?? {});
    } catch (thrown) {
      await giveUp(record, attempt, signal.aborted ? { stopped: signal.reason } : { thrown });
    } finally {
      cancelTimeout();
      attempt.end();
    }
  }

  async function complete(
    record: JobRecord,
    definition: AnyJobDefinition,
    attempt: Attempt,
    outcome: JobOutcome,
  ): Promise<void> {
    attempt.end();
    const { summary, result } = outcome;
    const { jobId } = record.job;
    await settle(record, attempt, result, {
      type: "complete",
      ...(summary === undefined ? {} : { summary: String(summary) }),
      resultResourceId: definition.resultResource(jobId),
      reports: boundariesBetween(definition.stages, 0, 100),
    });
  }

  /** The attempt ended early: by an error, or because it was stopped. */
  async function giveUp(
    record: JobRecord,
    attempt: Attempt,
    why: { readonly stopped: unknown } | { readonly thrown: unknown },
  ): Promise<void> {
    attempt.end();
    const reason = "stopped" in why ? why.stopped : why.thrown;
    const error = describeFailure(reason);
    // Only who stopped the attempt can say that it needs no end; a handler's own code means nothing here.
    if ("stopped" in why && (error.code === "LEASE_LOST" || error.code === "JOB_CANCELED")) return;
    if ("stopped" in why && error.code === "WORKER_STOPPED") {
      return settle(record, attempt, undefined, { type: "retry", error, delayMs: 0 });
    }
    const failures = record.job.failures + 1;
    const delayMs = reason instanceof RetryAfter ? reason.delayMs : backoffMs(failures, random);
    const final = !error.retryable || failures >= record.maxAttempts;
    await settle(
      record,
      attempt,
      undefined,
      final ? { type: "fail", error } : { type: "retry", error, delayMs },
    );
  }

  /** Writes the end of an attempt. A store that is busy is tried again for as long as the lease may hold, a full one until it has room. */
  async function settle(
    record: JobRecord,
    attempt: Attempt,
    result: unknown,
    command: Command,
  ): Promise<void> {
    const { owner, fence } = record;
    const { jobId } = record.job;
    const counts = attempt.takeCounts();
    const noted = withEffects(undefined, attempt.takeEffects());
    const giveUpAt = clock.monotonic() + leaseMs;
    for (let tries = 1; ; tries += 1) {
      try {
        await engine.apply({
          owner,
          jobId,
          fence,
          command,
          limits,
          ...(result === undefined ? {} : { result }),
          ...(counts ? { counts } : {}),
          ...noted,
        });
        return;
      } catch (error) {
        const info = describeFailure(error);
        if (!info.retryable && command.type === "complete") {
          // What the handler returned cannot be stored: that is the handler's failure, and the job must end.
          command = { type: "fail", error: info };
          result = undefined;
        } else if (
          !info.retryable ||
          closing ||
          (clock.monotonic() >= giveUpAt && info.code !== "STORE_FULL")
        ) {
          throw error;
        } else {
          await delay(Math.min(2_000, 50 * 2 ** tries));
        }
      }
    }
  }

  function delay(ms: number): Promise<void> {
    return new Promise((resolve) => void clock.after(ms, resolve));
  }

  return {
    abort(jobId, why) {
      running.get(jobId)?.controller.abort(why);
    },
    async close(graceMs) {
      closing = true;
      stopWatching();
      stopRenewing();
      cancelNextClaim?.();
      cancelNextCheck?.();
      // What a claim under way still brings is handed back like the rest.
      await claiming;
      const attempts = [...running.values()];
      for (const { lease, controller } of attempts) {
        controller.abort(
          new TidingsError(
            "WORKER_STOPPED",
            `The process that ran job ${lease.jobId} is shutting down; another attempt follows.`,
          ),
        );
      }
      await Promise.all(attempts.map(({ settled }) => settled));
      if (graceMs > 0)
        await Promise.race([Promise.all(attempts.map(({ returned }) => returned)), delay(graceMs)]);
    },
  };
}

/** The handler's outcome, unless it is stopped first: a handler that ignores its signal must not hold the job. */
function firstOf<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
    if (signal.aborted) onAbort();
  });
}
