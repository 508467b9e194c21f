/** Runs one attempt in a process of its own, so that a handler can block, exit or run out of memory alone. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { CALLBACK_LIMIT_MS } from "../../engine/callback-scope.ts";
import type { ChangeLimits, JobRecord } from "../../engine/engine.ts";
import { systemClock } from "../../engine/system-clock.ts";
import type { Clock } from "../../model/clock.ts";
import type { ErrorInfo } from "../../model/error.ts";
import { TidingsError } from "../../model/error.ts";
import type { JobOutcome } from "../define-job.ts";
import { RetryAfter } from "../error.ts";
import { describeFailure } from "../failure.ts";
import type { Isolation } from "./isolation.ts";
import type { Rest, ToChild, ToParent } from "./message.ts";

export interface IsolatedAttempt {
  readonly isolation: Isolation;
  /** What `openEngine` takes. */
  readonly store: string;
  readonly record: JobRecord;
  readonly limits: ChangeLimits;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Takes over what the process leaves for the attempt's last commit. */
  readonly adopt: (rest: Rest) => void;
}

/** How long a handler that was stopped may still tidy up. */
const GRACE_MS = 2_000;
/** How long its code may keep a transaction open; a callback that waits is given up by its own process before. */
const WRITING_LIMIT_MS = CALLBACK_LIMIT_MS + 1_000;

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
  const kills: (() => void)[] = [];
  let cancelWriting = () => {};
  let crash: ErrorInfo | undefined;
  const stop = () => {
    tell({ kind: "abort", error: describeFailure(signal.reason) });
    // It is a process of the machine, and lives in the machine's time as well.
    for (const each of new Set([clock, systemClock])) {
      kills.push(each.after(GRACE_MS, () => void child.kill("SIGKILL")));
    }
  };

  return new Promise<JobOutcome>((resolve, reject) => {
    child.once("error", (cause) => reject(notStarted(record, cause)));
    child.once("exit", (code, killedBy) => {
      const end = () => reject(crashed(record, code, killedBy, crash));
      // What it said last may still be on the way.
      if (child.connected) child.once("disconnect", end);
      else end();
    });
    child.on("message", (message: ToParent) => {
      switch (message.kind) {
        case "writing":
          cancelWriting = clock.after(WRITING_LIMIT_MS, () => reject(keptWriting(record)));
          return;
        case "written":
          return cancelWriting();
        case "crashing":
          crash = message.error;
          return;
        case "returned":
          adopt(message);
          return resolve(message);
        case "threw":
          adopt(message);
          return reject(toError(message));
      }
    });
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    tell({ kind: "run", module, store, record, limits });
  }).finally(() => {
    signal.removeEventListener("abort", stop);
    for (const cancelKill of kills) cancelKill();
    cancelWriting();
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

function crashed(
  { job }: JobRecord,
  code: number | null,
  killedBy: string | null,
  crash: ErrorInfo | undefined,
): TidingsError {
  const memory = killedBy === "SIGABRT" || killedBy === "SIGKILL" ? ", as happens when memory runs out" : "";
  const how = killedBy === null ? `exited with code ${code}` : `was ended by ${killedBy}${memory}`;
  const why = crash === undefined ? "" : ` by an error that nobody awaited: ${crash.message}`;
  return new TidingsError(
    "HANDLER_CRASHED",
    `The process of attempt ${job.attempt} of job "${job.jobId}" ${how}${why === "" ? "." : why}`,
    { hint: "Look at the server's standard error for what it said last." },
  );
}

/** The system's own sentence names a path of this machine, and a failure is read by whoever owns the job. */
function notStarted({ job }: JobRecord, cause: Error): TidingsError {
  return new TidingsError(
    "HANDLER_CRASHED",
    `The process of attempt ${job.attempt} of job "${job.jobId}" could not be started or reached.`,
    { hint: "Look whether the machine has processes and memory left.", cause },
  );
}

function keptWriting({ job }: JobRecord): TidingsError {
  return new TidingsError(
    "HANDLER_CRASHED",
    `The process of attempt ${job.attempt} of job "${job.jobId}" was ended: it kept a transaction open for ${WRITING_LIMIT_MS / 1_000} s, while nobody else could write.`,
    { hint: "Do slow work before the transaction and only write inside it." },
  );
}
