/** Runs one attempt in a process of its own, so that a handler can block, exit or run out of memory alone. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { ChangeLimits, JobRecord } from "../../engine/engine.ts";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { JobOutcome } from "../define-job.ts";
import { RetryAfter } from "../error.ts";
import { describeFailure } from "../failure.ts";
import type { Isolation } from "./isolation.ts";
import type { OutsideEffect, ToChild, ToParent } from "./message.ts";

export interface IsolatedAttempt {
  readonly isolation: Isolation;
  /** What `openEngine` takes. */
  readonly store: string;
  readonly record: JobRecord;
  readonly limits: ChangeLimits;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Takes over what the process leaves for the attempt's last commit. */
  readonly adopt: (rest: {
    readonly counts: Readonly<Record<string, number>>;
    readonly effects: readonly OutsideEffect[];
  }) => void;
}

/** How long a handler that was stopped may still tidy up. */
const GRACE_MS = 2_000;

/** Resolves with what the handler returned. @throws what it threw, or TidingsError HANDLER_CRASHED when its process ended. */
export function runIsolated(options: IsolatedAttempt): Promise<JobOutcome> {
  const { isolation, store, record, limits, signal, clock, adopt } = options;
  const { module, maxMemoryMb } = isolation;
  const suffix = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const child = fork(fileURLToPath(new URL(`./child.${suffix}`, import.meta.url)), {
    execArgv: [
      ...process.execArgv.filter((argument) => !/^--(inspect|eval|print|test)|^-[ep]$/.test(argument)),
      ...(maxMemoryMb === undefined ? [] : [`--max-old-space-size=${maxMemoryMb}`]),
    ],
    // Our own standard output may carry a protocol.
    stdio: ["ignore", 2, 2, "ipc"],
  });
  const tell = (message: ToChild) => void (child.connected && child.send(message, () => {}));
  let cancelKill = () => {};
  const stop = () => {
    tell({ kind: "abort", error: describeFailure(signal.reason) });
    cancelKill = clock.after(GRACE_MS, () => void child.kill("SIGKILL"));
  };

  return new Promise<JobOutcome>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, killedBy) => reject(crashed(record, code, killedBy)));
    child.once("message", (message: ToParent) => {
      adopt({ counts: message.counts ?? {}, effects: message.effects ?? [] });
      if (message.kind === "returned") resolve(message.outcome);
      else reject(toError(message));
    });
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    tell({ kind: "run", module, store, record, limits });
  }).finally(() => {
    signal.removeEventListener("abort", stop);
    cancelKill();
    child.kill("SIGKILL");
  });
}

function toError({ error, delayMs }: Extract<ToParent, { kind: "threw" }>): TidingsError {
  const { code, message, hint, retryable } = error;
  const hinted = hint === undefined ? {} : { hint };
  return delayMs === undefined
    ? new TidingsError(code, message, { retryable, ...hinted })
    : new RetryAfter(delayMs, message, { code, ...hinted });
}

function crashed({ job }: JobRecord, code: number | null, killedBy: string | null): TidingsError {
  const how =
    killedBy === null
      ? `exited with code ${code}`
      : `was ended by ${killedBy}${killedBy === "SIGABRT" || killedBy === "SIGKILL" ? ", as happens when memory runs out" : ""}`;
  return new TidingsError(
    "HANDLER_CRASHED",
    `The process of attempt ${job.attempt} of job "${job.jobId}" ${how}.`,
    {
      hint: "Look at the server's standard error for what it said last.",
    },
  );
}
