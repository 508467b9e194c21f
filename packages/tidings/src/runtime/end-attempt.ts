/** Writes how an attempt ended: the job is completed, failed, or waits for another attempt. */
import type { ChangeLimits, Engine, JobRecord } from "../engine/engine.ts";
import type { Clock, Random } from "../model/clock.ts";
import type { Command } from "../model/command.ts";
import type { ErrorInfo } from "../model/error.ts";
import { boundariesBetween } from "../model/progress.ts";
import { backoffMs } from "./backoff.ts";
import type { Attempt } from "./context.ts";
import type { AnyJobDefinition, JobOutcome } from "./define-job.ts";
import { withEffects } from "./effect-keys.ts";
import { askedDelayOf, describeFailure } from "./failure.ts";

export interface EndOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: ChangeLimits;
  readonly leaseMs: number;
  readonly definition: AnyJobDefinition;
  readonly record: JobRecord;
  readonly attempt: Attempt;
  /** Aborts when the process shuts down: what cannot be written then is left to the next one. */
  readonly closing: AbortSignal;
}

export async function completeAttempt(options: EndOptions, outcome: JobOutcome): Promise<void> {
  const { attempt, definition, record } = options;
  attempt.end();
  const { summary, result } = outcome;
  await settle(options, result, {
    type: "complete",
    ...(summary === undefined ? {} : { summary: String(summary) }),
    resultResourceId: definition.resultResource(record.job.jobId),
    reports: boundariesBetween(definition.stages, 0, 100),
  });
}

/** The attempt ended early: by an error, or because it was stopped. */
export async function giveUpAttempt(
  options: EndOptions,
  why: { readonly stopped: unknown } | { readonly thrown: unknown },
): Promise<void> {
  const { attempt, record, random } = options;
  attempt.end();
  const reason = "stopped" in why ? why.stopped : why.thrown;
  const error = "stopped" in why ? describeFailure(reason) : ownFailure(describeFailure(reason));
  // Only who stopped the attempt can say that it needs no end; a handler's own code means nothing here.
  if ("stopped" in why && (error.code === "LEASE_LOST" || error.code === "JOB_CANCELED")) return;
  if ("stopped" in why && error.code === "WORKER_STOPPED") {
    return settle(options, undefined, { type: "retry", error, delayMs: 0 });
  }
  const failures = record.job.failures + 1;
  const delayMs = askedDelayOf(reason) ?? backoffMs(failures, random);
  const final = !error.retryable || failures >= record.maxAttempts;
  await settle(options, undefined, final ? { type: "fail", error } : { type: "retry", error, delayMs });
}

/** What only the runtime may say of an attempt: whether it counts, and for what, goes by it. */
const RESERVED: ReadonlySet<string> = new Set([
  "WORKER_STOPPED",
  "WORKER_LOST",
  "LEASE_LOST",
  "JOB_CANCELED",
]);

/** A handler's error under a code that a handler may have. */
function ownFailure(error: ErrorInfo): ErrorInfo {
  return RESERVED.has(error.code) ? { ...error, code: "HANDLER_FAILED" } : error;
}

/** A store that is busy is tried again for as long as the lease may hold, a full one until it has room. */
async function settle(options: EndOptions, result: unknown, command: Command): Promise<void> {
  const { engine, clock, limits, leaseMs, attempt, closing } = options;
  const { owner, fence, job } = options.record;
  const { jobId } = job;
  // Notes for people: they are not worth the end of the job.
  const noted = withEffects(undefined, await attempt.takeEffects().catch(() => []));
  const counts = attempt.takeCounts();
  const giveUpAt = clock.monotonic() + leaseMs;
  for (let tries = 1; ; tries += 1) {
    const isLast = closing.aborted;
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
      } else if (!info.retryable || isLast || (clock.monotonic() >= giveUpAt && info.code !== "STORE_FULL")) {
        throw error;
      } else {
        await pause(Math.min(2_000, 50 * 2 ** tries), clock, closing);
      }
    }
  }
}

/** Cut short when the process shuts down: then the write is tried once more, and no longer waited for. */
function pause(ms: number, clock: Clock, closing: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const goOn = () => {
      cancel();
      closing.removeEventListener("abort", goOn);
      resolve();
    };
    const cancel = clock.after(ms, goOn);
    closing.addEventListener("abort", goOn);
    if (closing.aborted) goOn();
  });
}
