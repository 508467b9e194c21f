/** What a handler works with. Coalesces progress, never a stage's end; every write is fenced by the claim. */
import { setImmediate as yieldToLoop } from "node:timers/promises";
import type { Change, ChangeLimits, ChangeOutcome, Engine, JobRecord } from "../engine/engine.ts";
import type { Clock } from "../model/clock.ts";
import { toTimestamp } from "../model/clock.ts";
import type { Command } from "../model/command.ts";
import { TidingsError } from "../model/error.ts";
import type { InformationalDraft } from "../model/event.ts";
import type { EtaEstimate, ProgressReport } from "../model/progress.ts";
import { estimateEta, reportsFor } from "../model/progress.ts";
import { readEvent } from "../model/projection/read.ts";
import type { AnyJobDefinition, JobContext } from "./define-job.ts";
import type { OutsideEffect } from "./effect-keys.ts";
import { createEffectKeys, withEffects } from "./effect-keys.ts";
import type { Rest } from "./isolate/message.ts";

/** At most four events in between per second and job reach the log. */
const PROGRESS_INTERVAL_MS = 250;
/** A handler that reports in a tight loop still lets the process breathe this often. */
const BREATH_MS = 10;
/** How soon a job looks again whether a full store has room. */
const ROOM_INTERVAL_MS = 1_000;

/** Informational events that a handler may add; transitions are the runtime's. */
const FORBIDDEN_TYPES: readonly string[] = ["system.heartbeat"];

export interface Attempt {
  readonly context: JobContext;
  /** Counts that no commit has carried yet. */
  takeCounts(): Readonly<Record<string, number>> | undefined;
  /** Outside effects that no commit has noted yet. */
  takeEffects(): Promise<readonly OutsideEffect[]>;
  /** Counts and effects of the attempt's own process, for its last commit. */
  adopt(rest: Rest): void;
  /** Everything that the handler asked for is written, or was refused. */
  written(): Promise<unknown>;
  /** No timer of this attempt fires after it. */
  end(): void;
}

export interface AttemptOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly definition: AnyJobDefinition;
  readonly record: JobRecord;
  readonly limits: ChangeLimits;
  readonly signal: AbortSignal;
  /** The job is no longer this handler's: stop it. */
  readonly onLost: (error: TidingsError) => void;
  /** Called before each write; waits until a lease that may have run out is known to be held or lost. */
  readonly confirmLease?: () => Promise<void> | undefined;
}

export function createAttempt(options: AttemptOptions): Attempt {
  const { engine, clock, definition, record, limits, signal, onLost, confirmLease } = options;
  const { owner, fence } = record;
  const { jobId } = record.job;
  let shown = record.job.percentage;
  let estimate: EtaEstimate = { startedAtMs: clock.monotonic(), startedAtPercentage: shown };
  let pending: ProgressReport[] = [];
  let counts: Record<string, number> | undefined;
  const effectKeys = createEffectKeys(engine, record);
  /** When a report in between went out last; boundaries neither wait for it nor delay the next one. */
  let lastReportAt = Number.NEGATIVE_INFINITY;
  let lastBreathAt = clock.monotonic();
  let cancelFlush: (() => void) | undefined;
  let writing: Promise<unknown> = Promise.resolve();

  function isBoundary({ percentage }: ProgressReport): boolean {
    return definition.stages.some(({ end }) => end === percentage);
  }

  function takeCounts(): Readonly<Record<string, number>> | undefined {
    const taken = counts;
    counts = undefined;
    return taken;
  }

  function takeReports(): readonly ProgressReport[] {
    cancelFlush?.();
    cancelFlush = undefined;
    const reports = pending;
    pending = [];
    if (reports.some((report) => !isBoundary(report))) lastReportAt = clock.monotonic();
    return reports;
  }

  async function commit(change: Omit<Change, "owner" | "jobId" | "fence">): Promise<void> {
    // Nothing to wait for costs no turn: most commits find a lease that holds.
    const confirming = confirmLease?.();
    if (confirming !== undefined) await confirming;
    signal.throwIfAborted();
    const asked = await effectKeys.take();
    const taken = takeCounts();
    const carried = {
      ...(taken === undefined ? {} : { counts: taken }),
      ...withEffects(change.write, asked),
    };
    const outcome = await applyWithRoom({ owner, jobId, fence, limits, ...change, ...carried }).catch(
      (error: unknown) => {
        // Nothing was kept: the next commit carries them, unless newer ones were set meanwhile.
        if (taken !== undefined) counts = { ...taken, ...counts };
        effectKeys.giveBack(asked);
        throw error;
      },
    );
    if (outcome.outcome !== "applied") {
      const lost = new TidingsError(
        "LEASE_LOST",
        `Job ${jobId} is no longer this handler's: ${whyNot(outcome)}.`,
      );
      onLost(lost);
      throw lost;
    }
    shown = Math.max(shown, outcome.record.job.percentage);
  }

  /** A store that is full is no fault of the job: it waits, for as long as the attempt may last. */
  async function applyWithRoom(change: Change): Promise<ChangeOutcome> {
    for (;;) {
      try {
        return await engine.apply(change);
      } catch (error) {
        if (!(error instanceof TidingsError && error.code === "STORE_FULL")) throw error;
        await new Promise<void>((resolve) => {
          const goOn = () => {
            cancel();
            signal.removeEventListener("abort", goOn);
            resolve();
          };
          const cancel = clock.after(ROOM_INTERVAL_MS, goOn);
          signal.addEventListener("abort", goOn);
        });
        signal.throwIfAborted();
      }
    }
  }

  /** Commits of one attempt follow each other, so that its events stand in the order of its calls. */
  function enqueue<T>(work: () => Promise<T>): Promise<T> {
    const next = writing.then(work, work);
    writing = next.catch(() => undefined);
    return next;
  }

  function flush(): Promise<unknown> {
    return enqueue(async () => {
      const reports = takeReports();
      if (reports.length > 0) await commit({ command: { type: "progress", reports } });
    });
  }

  async function breathe(): Promise<void> {
    const now = clock.monotonic();
    if (now - lastBreathAt < BREATH_MS) return;
    await yieldToLoop();
    lastBreathAt = clock.monotonic();
  }

  async function progress(stageKey: string, fraction: number): Promise<void> {
    signal.throwIfAborted();
    const reports = reportsFor(definition.stages, shown, stageKey, fraction);
    const reached = reports.at(-1)?.percentage ?? 0;
    if (reached <= (pending.at(-1)?.percentage ?? shown)) return breathe();
    pending = withEta(reports);
    const wait = lastReportAt + PROGRESS_INTERVAL_MS - clock.monotonic();
    if (reports.some(isBoundary) || wait <= 0) {
      await flush();
      return breathe();
    }
    // A failed write shows at the handler's next call; the timer has nobody to tell.
    cancelFlush ??= clock.after(wait, () => void flush().catch(() => undefined));
    return breathe();
  }

  function withEta(reports: readonly ProgressReport[]): ProgressReport[] {
    return reports.map((report) => {
      const next = estimateEta(estimate, report.percentage, clock.monotonic());
      estimate = next.estimate;
      return next.etaSeconds === undefined ? report : { ...report, etaSeconds: next.etaSeconds };
    });
  }

  function dueProgress(): Command | undefined {
    if (pending.length === 0 || clock.monotonic() - lastReportAt < PROGRESS_INTERVAL_MS) return undefined;
    return { type: "progress", reports: takeReports() };
  }

  async function checkpoint(state: unknown, write?: Change["write"]): Promise<void> {
    await enqueue(() => {
      const command = dueProgress();
      return commit({ checkpoint: state, ...(write ? { write } : {}), ...(command ? { command } : {}) });
    });
    await breathe();
  }

  async function emit(event: InformationalDraft): Promise<void> {
    const draft = readDraft(event, jobId, clock);
    await enqueue(() => commit({ command: { type: "inform", events: [draft] } }));
  }

  const context: JobContext = {
    jobId,
    owner,
    correlationId: record.job.correlationId,
    attempt: record.job.attempt,
    signal,
    resumed: record.checkpoint,
    progress: (stageKey, fraction) => handled(progress(stageKey, fraction)),
    checkpoint: (state, write) => handled(checkpoint(state, write)),
    count(values) {
      counts = { ...counts, ...values };
    },
    emit: (event) => handled(emit(event)),
    log: (level, message) => context.emit({ type: "system.log", source: definition.type, level, message }),
    effectKey: effectKeys.keyOf,
  };

  return {
    context,
    takeCounts,
    takeEffects: effectKeys.take,
    adopt(rest) {
      if (Object.keys(rest.counts).length > 0) counts = { ...counts, ...rest.counts };
      effectKeys.giveBack(rest.effects);
    },
    written: () => writing,
    end: () => {
      cancelFlush?.();
      cancelFlush = undefined;
    },
  };
}

/** A handler that does not await a call must not bring the process down when the call is refused. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

/**
 * What a handler may say, and nothing else of what it passed: no id, time or place of its own.
 *
 * @throws TidingsError BAD_EVENT
 */
function readDraft(draft: InformationalDraft, jobId: string, clock: Clock): InformationalDraft {
  const { "~custom": _custom, ...fields } = draft as InformationalDraft & { "~custom"?: true };
  const transition = fields.type.startsWith("job.") && fields.type !== "job.partial";
  const read = readEvent({ ...fields, eventId: jobId, timestamp: toTimestamp(clock.now()), jobId });
  if (read.kind === "event" && !transition && !FORBIDDEN_TYPES.includes(fields.type)) {
    const { eventId: _id, timestamp: _at, jobId: _job, ...event } = read.event;
    return event as unknown as InformationalDraft;
  }
  const problem = read.kind === "invalid" ? read.problem : "its type belongs to the runtime";
  throw new TidingsError("BAD_EVENT", `The event "${fields.type}" of job ${jobId} was not sent: ${problem}.`);
}

function whyNot(outcome: Exclude<ChangeOutcome, { outcome: "applied" }>): string {
  switch (outcome.outcome) {
    case "stale":
      return outcome.record.job.status === "running"
        ? "another worker took it over"
        : `it is ${outcome.record.job.status}`;
    case "refused":
      return `it is ${outcome.record.job.status}`;
    case "unknown":
      return "it was removed";
  }
}
