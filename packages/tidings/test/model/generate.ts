/** Generators of events, jobs and commands for the model's property tests. */
import fc from "fast-check";
import type { Command } from "../../src/model/command.ts";
import { create, decide } from "../../src/model/decide.ts";
import type { CatalogueType, EventOf, TidingsEvent } from "../../src/model/event.ts";
import { CATALOGUE, ENVELOPE_FIELDS } from "../../src/model/event.ts";
import type { Job } from "../../src/model/job.ts";
import { reduce } from "../../src/model/reduce.ts";
import type { ObjectSchema, Schema } from "../../src/model/schema.ts";

export const TYPES = Object.keys(CATALOGUE) as CatalogueType[];

export const JOB_ID = "job_1";
export const AT = "2026-12-01T10:15:00.000Z";

const timestamps = fc
  .date({ min: new Date("0001-01-01"), max: new Date("9999-12-31"), noInvalidDate: true })
  .map((date) => date.toISOString());

/** Values that a schema accepts. */
export function valid(schema: Schema): fc.Arbitrary<unknown> {
  if ("anyOf" in schema) return fc.oneof(...schema.anyOf.map(valid));
  switch (schema.type) {
    case "string":
      if (schema.const !== undefined) return fc.constant(schema.const);
      if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
      if (schema.pattern !== undefined) return timestamps;
      return fc.string({ minLength: schema.minLength ?? 0, maxLength: 20, unit: "binary" });
    case "integer":
      return fc.integer({ min: schema.minimum ?? -1000, max: schema.maximum ?? 1000 });
    case "number":
      return fc.double({ min: schema.minimum ?? -1e9, max: schema.maximum ?? 1e9, noNaN: true });
    case "boolean":
      return fc.boolean();
    case "object":
      return validObject(schema);
  }
}

function validObject(schema: ObjectSchema): fc.Arbitrary<Record<string, unknown>> {
  const fields = Object.entries(schema.properties as Record<string, Schema>);
  return fc.record(Object.fromEntries(fields.map(([name, field]) => [name, valid(field)])), {
    requiredKeys: [...schema.required],
    noNullPrototype: true,
  });
}

/** Any valid event of one type, as a flat event. */
export function eventsOf(type: CatalogueType): fc.Arbitrary<TidingsEvent> {
  const { subject, payload } = CATALOGUE[type];
  const { type: _, ...envelope } = ENVELOPE_FIELDS;
  const head = validObject({
    type: "object",
    properties: envelope,
    required: ["eventId", "timestamp", subject],
  });
  return fc
    .tuple(head, validObject(payload))
    .map(([fields, body]) => throughJson({ ...fields, type, ...body }));
}

export const anyEvent: fc.Arbitrary<TidingsEvent> = fc.constantFrom(...TYPES).chain(eventsOf);

/** What a value is after a trip over a wire. */
export function throughJson<T>(value: T): TidingsEvent {
  return JSON.parse(JSON.stringify(value)) as TidingsEvent;
}

const error = fc.record({
  code: fc.constantFrom("SOURCE_TIMEOUT", "WORKER_STOPPED", "NO_EMAIL_COLUMN"),
  message: fc.constant("It went wrong."),
  retryable: fc.boolean(),
});

const report = fc.record({
  percentage: fc.oneof(
    fc.integer({ min: 0, max: 100 }),
    fc.double({ min: 0, max: 100, noNaN: true }),
    fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, -5, 100.5),
  ),
  stage: fc.constant("Working"),
  stageKey: fc.constant("work"),
});

/** Commands as hostile or confused callers might give them, in no sensible order. */
export const anyCommand: fc.Arbitrary<Command> = fc.oneof(
  fc.constant<Command>({ type: "start" }),
  fc.record({ type: fc.constant("progress" as const), reports: fc.array(report, { maxLength: 4 }) }),
  fc.record({ type: fc.constant("retry" as const), error, delayMs: fc.nat(60_000) }),
  fc.record({
    type: fc.constant("complete" as const),
    resultResourceId: fc.constant("job://job_1/result"),
    reports: fc.array(report, { maxLength: 4 }),
  }),
  fc.record({ type: fc.constant("fail" as const), error }),
  fc.record({ type: fc.constant("cancel" as const), canceledBy: fc.constantFrom("user", "agent") }),
  fc.constant<Command>({
    type: "inform",
    events: [
      { type: "job.partial", added: 2, resultResourceId: "job://job_1/result", cursor: "p2" },
      { type: "resource.updated", resourceId: "resource:product-feed", changeType: "snapshot_ready" },
    ],
  }),
);

export interface Story {
  readonly job: Job;
  readonly events: readonly TidingsEvent[];
}

export function newborn(): Story {
  const event = create({ jobId: JOB_ID, jobType: "work" }, AT);
  return { job: reduce(undefined, event) as Job, events: [event] };
}

/** Gives the commands to a new job one after another, as a store does: refused ones change nothing. */
export function play(commands: readonly Command[], begin: Story = newborn()): Story {
  let { job } = begin;
  const events = [...begin.events];
  for (const command of commands) {
    const decision = decide(job, command, AT);
    if ("refused" in decision) continue;
    for (const event of decision.events) {
      events.push(event);
      job = reduce(job, event);
    }
  }
  return { job, events };
}

export function isProgress(event: TidingsEvent): event is EventOf<"job.progress"> {
  return event.type === "job.progress";
}
