/**
 * What tools take. Arguments are validated here and not by the SDK, whose refusal is a bare sentence: the SDK gets
 * schemas that say the truth in JSON Schema and let everything through.
 */
import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import { TidingsError } from "../../model/error.ts";
import { STATUSES } from "../../model/job.ts";
import type { Infer, ObjectSchema } from "../../model/schema.ts";
import { findProblem, isRecord, object } from "../../model/schema.ts";
import type { StandardSchema } from "../../model/standard-schema.ts";
import { jsonSchemaOf, validate } from "../../model/standard-schema.ts";

const jobId = {
  type: "string",
  minLength: 1,
  maxLength: 512,
  description: "The job's id, as the tool that started it answered.",
} as const;

const cursor = { type: "string", minLength: 1, maxLength: 512 } as const;

const correlationId = {
  type: "string",
  minLength: 1,
  maxLength: 512,
  description: "Your run or workflow; it is repeated on every event of the job and can be searched for.",
} as const;

/** What every tool that starts a job takes beside the job's own input. */
const START_FIELDS = object(
  {},
  {
    idempotencyKey: {
      type: "string",
      minLength: 1,
      maxLength: 512,
      description:
        "Makes the call safe to repeat: the same key with the same arguments answers with the same job. Compared exactly.",
    },
    correlationId,
  },
);

export const GET_JOB_INPUT = object({ jobId });

export const CANCEL_JOB_INPUT = object(
  { jobId },
  {
    reason: { type: "string", maxLength: 2000, description: "Why, in a sentence for people." },
  },
);

export const RETRY_JOB_INPUT = object({ jobId });

export const LIST_MY_JOBS_INPUT = object(
  {},
  {
    status: { type: "string", enum: STATUSES, description: "Only jobs in this state." },
    correlationId: { ...correlationId, description: "Only jobs that were started with this correlationId." },
    cursor: { ...cursor, description: "The nextCursor of the page before." },
    limit: { type: "integer", minimum: 1, maximum: 100, description: "Jobs per page; default 20." },
  },
);

export const GET_JOB_EVENTS_INPUT = object(
  { jobId },
  {
    after: {
      ...cursor,
      description: "The cursor of the last event you have; left out = from the beginning.",
    },
    waitSeconds: {
      type: "number",
      minimum: 0,
      maximum: 25,
      description: "How long to wait when there is nothing new; default 0.",
    },
    limit: { type: "integer", minimum: 1, maximum: 1000, description: "Events per page; default 100." },
  },
);

/** A schema for the SDK that says what a tool takes, and validates nothing. */
export type AdvertisedSchema = StandardSchemaWithJSON<unknown, Record<string, unknown>>;

export function advertise(jsonSchema: object): AdvertisedSchema {
  const json = () => ({ ...jsonSchema });
  return {
    "~standard": {
      version: 1,
      vendor: "tidings",
      validate: (value) => ({ value: isRecord(value) ? value : {} }),
      jsonSchema: { input: json, output: json },
    },
  };
}

/** @throws TidingsError BAD_INPUT, naming the argument. */
export function readArguments<Schema extends ObjectSchema>(
  schema: Schema,
  args: Readonly<Record<string, unknown>>,
): Infer<Schema> {
  const problem = findProblem(schema, args, "arguments");
  if (problem !== undefined) throw badInput(problem);
  return args as Infer<Schema>;
}

/** By the job's input. It stays the same, while a server is made for each request of 2026-07-28. */
const startSchemas = new WeakMap<StandardSchema, AdvertisedSchema>();

/**
 * What a tool that starts a job advertises: the input's own fields, and the two of every start.
 *
 * @throws TidingsError BAD_DEFINITION when the input uses the name of one of the two.
 */
export function advertiseStart(input: StandardSchema, tool: string): AdvertisedSchema {
  let schema = startSchemas.get(input);
  if (schema === undefined) {
    schema = advertise(toStartSchema(input, tool));
    startSchemas.set(input, schema);
  }
  return schema;
}

function toStartSchema(input: StandardSchema, tool: string): object {
  const own = jsonSchemaOf(input, "input") ?? {};
  const properties = isRecord(own.properties) ? own.properties : {};
  for (const name of Object.keys(START_FIELDS.properties)) {
    if (!Object.hasOwn(properties, name)) continue;
    throw new TidingsError("BAD_DEFINITION", `The input of the tool "${tool}" has a field "${name}".`, {
      hint: "Rename it: every tool that starts a job has a field of this name already.",
    });
  }
  const { $schema: _, ...rest } = own;
  return { ...rest, type: "object", properties: { ...properties, ...START_FIELDS.properties } };
}

export interface StartArguments {
  /** The arguments without the two fields of every start, not validated yet. */
  readonly own: Readonly<Record<string, unknown>>;
  readonly start: { readonly idempotencyKey?: string; readonly correlationId?: string };
}

/** @throws TidingsError BAD_INPUT, naming the argument. */
export function readStartArguments(args: Readonly<Record<string, unknown>>): StartArguments {
  const { idempotencyKey, correlationId } = readArguments(START_FIELDS, args);
  const { idempotencyKey: _key, correlationId: _correlation, ...own } = args;
  return {
    own,
    start: {
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      ...(correlationId === undefined ? {} : { correlationId }),
    },
  };
}

/** @throws TidingsError BAD_INPUT, naming the fields. */
export function validateArguments<Args>(
  schema: StandardSchema<unknown, Args>,
  args: Readonly<Record<string, unknown>>,
  tool: string,
): Args {
  const valid = validate(schema, args, tool);
  if (valid.problem !== undefined) throw badInput(valid.problem);
  return valid.value;
}

function badInput(problem: string): TidingsError {
  return new TidingsError("BAD_INPUT", `The arguments were not accepted: ${problem}.`, {
    hint: "Correct the named arguments and call again.",
  });
}
