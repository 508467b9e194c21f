/** What a user writes: a job's type, its input, its stages and its handler. */
import type { JobTransaction } from "../engine/engine.ts";
import { TidingsError } from "../model/error.ts";
import type { InformationalDraft, LogLevel } from "../model/event.ts";
import type { Stage, StageSpec } from "../model/progress.ts";
import { readStages } from "../model/progress.ts";
import type { InputOf, OutputOf, StandardSchema } from "../model/standard-schema.ts";
import type { IsolateOptions, Isolation } from "./isolate/isolation.ts";
import { readIsolation } from "./isolate/isolation.ts";
import { noteDefinition } from "./isolate/role.ts";

/**
 * What a handler gets beside its input. Once the job is no longer this handler's, every promise rejects: with the reason
 * of `signal` when it was stopped (JOB_CANCELED, JOB_TIMEOUT, WORKER_STOPPED), else with LEASE_LOST.
 */
export interface JobContext<StageKey extends string = string> {
  readonly jobId: string;
  readonly owner: string;
  readonly correlationId: string | undefined;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Aborts when the job was canceled, timed out, lost its lease, or the server shuts down. Pass it on and stop soon. */
  readonly signal: AbortSignal;
  /** What an earlier attempt saved by `checkpoint`; undefined in the first. */
  readonly resumed: unknown;
  /**
   * Reports that `stage` is `fraction` done (0 to 1). Reports in between may be coalesced (at most 4 a second reach
   * the log); a stage's end never is. Boundaries of stages that were skipped follow by themselves.
   */
  progress(stage: StageKey, fraction: number): Promise<void>;
  /**
   * Saves JSON to go on from after a crash and, in the same commit, whatever `write` adds: items of the job's
   * collections, values, rows of your own tables. It happens once, or not at all.
   */
  checkpoint(state: unknown, write?: (transaction: JobTransaction) => void | Promise<void>): Promise<void>;
  /** Sets numbers of the job (rows read, rows refused, …); they are committed with the next report or checkpoint. */
  count(counts: Readonly<Record<string, number>>): void;
  /** Adds an informational event to the job's story: a resource changed, an outside service is slow, an event of your own. */
  emit(event: InformationalDraft): Promise<void>;
  /** Adds a line of log to the job's story, as `system.log` with the job's type as source. */
  log(level: LogLevel, message: string): Promise<void>;
  /** A key that stays the same for this job and item in every attempt: give it to outside services to de-duplicate by. */
  effectKey(item: string): string;
}

export interface JobOutcome {
  /** One line for people. */
  readonly summary?: string;
  /** JSON; becomes the result resource. */
  readonly result?: unknown;
}

/** A handler may return its outcome or nothing, at once or later. */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement returns void
export type JobReturn = Promise<JobOutcome | void> | JobOutcome | void;

export interface JobOptions<Schema extends StandardSchema, Stages extends StageSpec> {
  /** Any synchronous Standard Schema of an object. */
  readonly input: Schema;
  /** Where each stage ends, in percent. Default: one stage `work`. */
  readonly stages?: Stages;
  /** One line for people about what is going to happen, from the input. */
  readonly summary?: (input: OutputOf<Schema>) => string;
  /** The job's numbers before the handler counts anything, so that they are there from the start. Default: none. */
  readonly counts?: Readonly<Record<string, number>>;
  /** What ids begin with. Default: the type and an underscore. */
  readonly idPrefix?: string;
  /** URI of the result. Default: `job://{jobId}/result`. */
  readonly resultResource?: (jobId: string) => string;
  /** How many attempts may fail before the job does. Default 3. */
  readonly attempts?: number;
  /** How long one attempt may take, in milliseconds, before it counts as failed with JOB_TIMEOUT. Default 1 hour. */
  readonly timeoutMs?: number;
  /**
   * Runs each attempt in a process of its own, so that a handler which blocks, exits or runs out of memory cannot take
   * the server along; costs the start of a process. The process loads the module that calls `defineJob` and opens the
   * same store, so `memory:` is not enough. Default false.
   */
  readonly isolate?: boolean | IsolateOptions;
  /**
   * Does the work. Throw `PermanentError` when trying again is no use, `RetryAfter` to choose the delay; anything else
   * is tried again after a growing delay.
   */
  run(input: OutputOf<Schema>, context: JobContext<Extract<keyof Stages, string>>): JobReturn;
}

/** A job type, ready for `createTidings({ jobs })` and `registerJob`. */
export interface JobDefinition<Type extends string = string, Input = unknown, Output = Input> {
  readonly type: Type;
  readonly input: StandardSchema<Input, Output>;
  readonly stages: readonly Stage[];
  readonly summary: ((input: Output) => string) | undefined;
  readonly counts: Readonly<Record<string, number>>;
  readonly idPrefix: string;
  readonly resultResource: (jobId: string) => string;
  readonly attempts: number;
  readonly timeoutMs: number;
  readonly isolation: Isolation | undefined;
  run(input: Output, context: JobContext): JobReturn;
}

/** A job definition of any input, as lists of them are typed. */
// biome-ignore lint/suspicious/noExplicitAny: inputs of different jobs have nothing in common
export type AnyJobDefinition = JobDefinition<string, any, any>;

const JOB_TYPE_PATTERN = /^[a-z][a-z0-9_.]{0,99}$/;
const HOUR_MS = 3_600_000;

/**
 * Defines a job type.
 *
 * @param type - Lower-case letters, digits, `_` and `.`; at most 100 characters. Stands in every snapshot as `jobType`.
 * @throws TidingsError BAD_DEFINITION
 */
export function defineJob<
  const Type extends string,
  Schema extends StandardSchema,
  const Stages extends StageSpec = { work: 100 },
>(type: Type, options: JobOptions<Schema, Stages>): JobDefinition<Type, InputOf<Schema>, OutputOf<Schema>> {
  if (!JOB_TYPE_PATTERN.test(type)) {
    throw new TidingsError("BAD_DEFINITION", `"${type}" cannot be a job type.`, {
      hint: "Use lower-case letters, digits, underscores and dots, beginning with a letter.",
    });
  }
  const idPrefix = options.idPrefix ?? `${type}_`;
  if (!/^[0-9A-Za-z_.-]{0,64}$/.test(idPrefix)) {
    throw new TidingsError(
      "BAD_DEFINITION",
      `The id prefix "${idPrefix}" of "${type}" may hold letters, digits, _, . and - only.`,
    );
  }
  const attempts = options.attempts ?? 3;
  if (!Number.isInteger(attempts) || attempts < 1) {
    throw new TidingsError(
      "BAD_DEFINITION",
      `"${type}" allows ${attempts} attempts; it must be a whole number from 1.`,
    );
  }
  const timeoutMs = options.timeoutMs ?? HOUR_MS;
  if (!(timeoutMs > 0))
    throw new TidingsError("BAD_DEFINITION", `The timeout of "${type}" must be above 0 ms.`);
  const definition: JobDefinition<Type, InputOf<Schema>, OutputOf<Schema>> = {
    type,
    input: options.input as StandardSchema<InputOf<Schema>, OutputOf<Schema>>,
    stages: readStages(options.stages, type),
    summary: options.summary,
    counts: options.counts ?? {},
    idPrefix,
    resultResource: options.resultResource ?? ((jobId) => `job://${jobId}/result`),
    attempts,
    timeoutMs,
    isolation: readIsolation(options.isolate, type, defineJob),
    run: (input, context) => options.run(input, context as JobContext<Extract<keyof Stages, string>>),
  };
  noteDefinition(definition);
  return definition;
}
