/** The one rule by which an ended job is started again, as a new one. */
import type { Engine, EventLimit, JobRecord, QueueLimit, StartOutcome } from "../engine/engine.ts";
import type { Random } from "../model/clock.ts";
import type { AnyJobDefinition } from "./define-job.ts";
import { digestOf } from "./digest.ts";

export interface RetryParts {
  readonly engine: Engine;
  readonly random: Random;
  /** Undefined where the program that defines the job is another one: then what the store keeps has to do. */
  readonly definition?: AnyJobDefinition | undefined;
  /** Default: no limit. */
  readonly queue?: QueueLimit;
  /** Default: no limit. */
  readonly limits?: EventLimit;
}

/** Starts the successor of a job, with the same input; one that has a successor already is answered with that. */
export async function retryJob(old: JobRecord, parts: RetryParts): Promise<StartOutcome> {
  const { engine, random, definition, queue, limits } = parts;
  const { jobId, jobType, correlationId } = old.job;
  const input = await engine.document(old.owner, jobId, "input");
  // Every job has one: this one was removed meanwhile.
  if (input === undefined) return { outcome: "unknown" };
  const summary = definition === undefined ? await firstSummaryOf(engine, old) : definition.summary?.(input);
  const id = random.id();
  return engine.start({
    owner: old.owner,
    // The successor's id looks like the old one's, which ends with as many random characters.
    jobId: (definition?.idPrefix ?? jobId.slice(0, -id.length)) + id,
    jobType,
    input,
    digest: digestOf([jobType, input]),
    retryOf: jobId,
    counts: definition?.counts ?? Object.fromEntries(Object.keys(old.counts).map((name) => [name, 0])),
    maxAttempts: definition?.attempts ?? old.maxAttempts,
    ...(queue === undefined ? {} : { queue }),
    ...(limits === undefined ? {} : { limits }),
    ...(correlationId === undefined ? {} : { correlationId }),
    ...(summary === undefined ? {} : { summary }),
  });
}

/** What was going to happen; the job's own summary now tells what did. */
async function firstSummaryOf(engine: Engine, { owner, job, birth }: JobRecord): Promise<string | undefined> {
  const { entries } = await engine.read(owner, { jobIds: [job.jobId] }, birth, 1);
  const event = entries[0]?.event;
  return event?.type === "job.created" && "summary" in event
    ? (event.summary as string | undefined)
    : undefined;
}
