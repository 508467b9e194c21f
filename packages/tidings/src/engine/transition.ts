/**
 * What happens to one job, for every engine alike: engines only keep what these functions say.
 *
 *   startJob ──▶ pending ──claimJob──▶ running ──changeJob──▶ …
 *                   ▲                    │ lease ran out, holder gone
 *                   └── job.retrying ◀───┤ claimJob
 *                          job.failed ◀──┘ when its attempts are used up
 *
 * A wait belongs to a pending job (its delay) or a running one (its lease). It stands on the monotonic clock of the
 * machine; one that was set later than now comes from before the machine was restarted, and is over.
 */
import { type Clock, toTimestamp } from "../model/clock.ts";
import type { CommandType, Refusal } from "../model/command.ts";
import { create, decide } from "../model/decide.ts";
import { type ErrorInfo, TidingsError } from "../model/error.ts";
import { isCatalogueType, isStored, type TidingsEvent } from "../model/event.ts";
import { hasEnded, type Job } from "../model/job.ts";
import { readEvent } from "../model/projection/read.ts";
import { reduce } from "../model/reduce.ts";
import type { Change, ClaimRequest, EventLimit, JobRecord, QueueLimit, StartRequest } from "./engine.ts";
import { toJson } from "./json.ts";
import { checkBytes, checkEvents } from "./limits.ts";

/** A span of the monotonic clock, in milliseconds. */
export interface Wait {
  readonly setAt: number;
  readonly until: number;
}

export const NO_WAIT: Wait = { setAt: 0, until: 0 };

/** One job as an engine keeps it; `record` without input, checkpoint and result. */
export interface KeptJob {
  readonly record: JobRecord;
  readonly wait: Wait;
  /** Who has the lease; undefined unless the job runs. */
  readonly holder: string | undefined;
}

/** An event and the text that is kept of it. */
export interface KeptEvent {
  readonly event: TidingsEvent;
  readonly body: string;
}

/** The larger parts of a job, as JSON; those that are absent stay as they are. */
export interface Documents {
  readonly input?: string;
  readonly checkpoint?: string;
  readonly result?: string;
}

export interface Transition {
  readonly kept: KeptJob;
  readonly events: readonly KeptEvent[];
  readonly documents: Documents;
}

export type Verdict =
  | ({ readonly outcome: "applied" } & Transition)
  | { readonly outcome: "stale" }
  | { readonly outcome: "refused"; readonly refusal: Refusal };

/** One reading of both clocks, so that everything in a transaction happens at the same time. */
export interface Moment {
  readonly timestamp: string;
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export function momentOf(clock: Clock): Moment {
  const wallMs = clock.now();
  return { timestamp: toTimestamp(wallMs), wallMs, monotonicMs: clock.monotonic() };
}

export function isOver(wait: Wait, monotonicMs: number): boolean {
  return wait.until <= monotonicMs || wait.setAt > monotonicMs;
}

/** Whether a claim may take the job now. */
export function isDue(kept: KeptJob, goneHolders: readonly string[], monotonicMs: number): boolean {
  const { status } = kept.record.job;
  if (hasEnded(status)) return false;
  if (status === "running" && kept.holder !== undefined && goneHolders.includes(kept.holder)) return true;
  return isOver(kept.wait, monotonicMs);
}

export function startJob(request: StartRequest, moment: Moment): Transition {
  const documents = { input: toJson(request.input, `The input of job "${request.jobId}"`) };
  const event = keep(create(request, moment.timestamp));
  checkEventBytes([event], request.limits);
  const record: JobRecord = {
    owner: request.owner,
    job: reduce(undefined, event.event) as Job,
    counts: request.counts ?? {},
    maxAttempts: request.maxAttempts,
    birth: 0,
    position: 0,
    fence: 0,
  };
  return { kept: { record, wait: NO_WAIT, holder: undefined }, events: [event], documents };
}

/** The commands after which a job has ended, or waits for another attempt. */
const ENDS: ReadonlySet<CommandType> = new Set(["retry", "complete", "fail", "cancel"]);

/** What a change makes of a job. Everything that may be wrong with it is found here, before anything is written. */
export function changeJob(kept: KeptJob, change: Change, moment: Moment): Verdict {
  const { record } = kept;
  const { command } = change;
  if (change.fence !== undefined && (record.job.status !== "running" || record.fence !== change.fence)) {
    return { outcome: "stale" };
  }
  const decision = command === undefined ? { events: [] } : decide(record.job, command, moment.timestamp);
  if ("refused" in decision) return { outcome: "refused", refusal: decision.refused };
  const { limits } = change;
  const events = decision.events.map(keep);
  const job = fold(record.job, events);
  // What ends an attempt must always be written: it could not end otherwise. What is wrong with it is told in short texts.
  const isEnd = command !== undefined && ENDS.has(command.type);
  if (command?.type !== "retry" && command?.type !== "fail") checkEventBytes(events, limits);
  if (!isEnd) checkEvents(job.seq, limits?.events, job.jobId);
  const counts =
    change.counts === undefined ? record.counts : merged(record.counts, change.counts, job.jobId);
  const documents: { checkpoint?: string; result?: string } = {};
  if (change.checkpoint !== undefined) {
    const what = `The checkpoint of job "${job.jobId}"`;
    documents.checkpoint = toJson(change.checkpoint, what);
    checkBytes(documents.checkpoint, limits?.checkpointBytes, what);
  }
  if (change.result !== undefined && command?.type === "complete") {
    const what = `The result of job "${job.jobId}"`;
    documents.result = toJson(change.result, what);
    checkBytes(documents.result, limits?.resultBytes, what);
  }
  const stays = job.status === "running" && record.job.status === "running";
  return {
    outcome: "applied",
    kept: {
      record: copyRecord(record, job, counts, record.position),
      wait:
        stays || job.status === record.job.status
          ? kept.wait
          : command?.type === "retry"
            ? waitFor(command.delayMs, moment)
            : NO_WAIT,
      holder: stays ? kept.holder : undefined,
    },
    events,
    documents,
  };
}

/** Gives a due job to a holder; or ends it, when it was lost once too often: then its status is `failed`. */
export function claimJob(
  kept: KeptJob,
  claim: Pick<ClaimRequest, "holder" | "leaseMs">,
  moment: Moment,
): Transition {
  const at = moment.timestamp;
  const events: KeptEvent[] = [];
  let { job } = kept.record;
  const run = (command: Parameters<typeof decide>[1]) => {
    const decision = decide(job, command, at);
    if ("refused" in decision) {
      throw new TidingsError("INTERNAL", `Job "${job.jobId}" could not be claimed: ${decision.refused}.`);
    }
    const added = decision.events.map(keep);
    events.push(...added);
    job = fold(job, added);
  };
  if (job.status === "running") {
    const lost = job.failures + 1 >= kept.record.maxAttempts;
    run(
      lost ? { type: "fail", error: workerLost(job) } : { type: "retry", error: workerLost(job), delayMs: 0 },
    );
  }
  if (job.status === "failed") {
    const ended = { record: { ...kept.record, job }, wait: NO_WAIT, holder: undefined };
    return { kept: ended, events, documents: {} };
  }
  run({ type: "start", ...(job.summary === undefined ? {} : { summary: job.summary }) });
  return {
    kept: {
      record: { ...kept.record, job, fence: kept.record.fence + 1 },
      wait: waitFor(claim.leaseMs, moment),
      holder: claim.holder,
    },
    events,
    documents: {},
  };
}

/** Whether an owner with so much waiting may not start another job. */
export function isFull(
  queue: QueueLimit,
  waiting: { readonly jobs: number; readonly bytes: number },
  inputBytes: number,
): boolean {
  return waiting.jobs >= queue.jobs || (waiting.jobs > 0 && waiting.bytes + inputBytes > queue.bytes);
}

/** Whether an owner that keeps so much may not start another job. Who keeps nothing may. */
export function isOverQuota(bytes: number, inputBytes: number, { storedBytes }: QueueLimit): boolean {
  return storedBytes !== undefined && bytes > 0 && bytes + inputBytes > storedBytes;
}

/**
 * The progress of an ended story that can be left out: all but the last report of each stage. What remains folds to the
 * same job.
 */
export function findIdle(
  reports: readonly { readonly position: number; readonly stageKey: unknown }[],
): number[] {
  return reports
    .filter(({ stageKey }, index) => reports[index + 1]?.stageKey === stageKey)
    .map(({ position }) => position);
}

/** The wait that begins now. */
export function waitFor(ms: number, moment: Moment): Wait {
  const span = Number.isFinite(ms) ? Math.max(0, ms) : 0;
  if (span === 0) return NO_WAIT;
  return { setAt: moment.monotonicMs, until: moment.monotonicMs + span };
}

/** The same job after its events found their places. */
export function placed({ record, wait, holder }: KeptJob, positions: readonly number[]): KeptJob {
  const position = positions.at(-1) ?? record.position;
  return { record: copyRecord(record, record.job, record.counts, position), wait, holder };
}

/** Field by field, for the reason that `copyOf` has. Documents are not part of what is kept. */
function copyRecord(
  { owner, maxAttempts, retriedAs, birth, fence }: JobRecord,
  job: Job,
  counts: JobRecord["counts"],
  position: number,
): JobRecord {
  const record = { owner, job, counts, maxAttempts, birth, position, fence };
  return retriedAs === undefined ? record : { ...record, retriedAs };
}

/** Texts of events that concern no job. @throws TidingsError BAD_EVENT for one that only a job may have, or that is never stored; PAYLOAD_TOO_LARGE. */
export function keepPublished(events: readonly TidingsEvent[], limit?: EventLimit): readonly KeptEvent[] {
  const kept = events.map((event) => {
    const about = `The event "${event.type}" was not published`;
    if (event.jobId !== undefined || event.seq !== undefined || event.type.startsWith("job.")) {
      throw new TidingsError("BAD_EVENT", `${about}: it belongs to the story of a job.`, {
        hint: "Add it to the job with emit, from its handler.",
      });
    }
    if (!isStored(event.type)) {
      throw new TidingsError("BAD_EVENT", `${about}: events of this type are never stored.`);
    }
    return keep(event);
  });
  checkEventBytes(kept, limit);
  return kept;
}

/** @throws TidingsError PAYLOAD_TOO_LARGE */
function checkEventBytes(events: readonly KeptEvent[], limit: EventLimit | undefined): void {
  for (const { event, body } of events) checkBytes(body, limit?.eventBytes, `The event "${event.type}"`);
}

/**
 * Reads the event back from its text, so that a writer is given the very event that readers will see.
 *
 * @throws TidingsError BAD_EVENT for one that readers would refuse.
 */
function keep(event: TidingsEvent): KeptEvent {
  const read = readEvent(event);
  if (read.kind !== "event") {
    const problem = read.kind === "invalid" ? read.problem : "it is no event";
    throw new TidingsError("BAD_EVENT", `The event "${event.type}" was not written: ${problem}.`);
  }
  const body = toJson(read.event, `The event "${event.type}"`);
  return { event: isFlat(read.event) ? read.event : (JSON.parse(body) as TidingsEvent), body };
}

/** Whether JSON gives the event back as it is: the reader checked each field, and only what is nested can still be somebody else's. */
function isFlat(event: TidingsEvent): boolean {
  if (!isCatalogueType(event.type)) return false;
  for (const value of Object.values(event)) if (typeof value === "object") return false;
  return true;
}

function fold(job: Job, events: readonly KeptEvent[]): Job {
  return events.reduce<Job>((folded, { event }) => reduce(folded, event), job);
}

function merged(
  before: Readonly<Record<string, number>>,
  counts: Readonly<Record<string, number>>,
  jobId: string,
): Readonly<Record<string, number>> {
  for (const [name, value] of Object.entries(counts)) {
    if (typeof value === "number" && Number.isFinite(value)) continue;
    throw new TidingsError("BAD_INPUT", `The count "${name}" of job "${jobId}" is not a finite number.`);
  }
  return { ...before, ...counts };
}

function workerLost(job: Job): ErrorInfo {
  return {
    code: "WORKER_LOST",
    message: `The process that ran attempt ${job.attempt} of job "${job.jobId}" went away before it ended.`,
    hint: "Nothing needs to be put right in the input; the work was interrupted.",
    retryable: true,
  };
}
