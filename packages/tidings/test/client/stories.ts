/** Legal stories for tests, made by the model itself, and their straight fold. */
import fc from "fast-check";
import type { Command } from "../../src/model/command.ts";
import { create, decide } from "../../src/model/decide.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import type { Job } from "../../src/model/job.ts";
import { reduce } from "../../src/model/reduce.ts";

export const AT = "2026-12-01T10:15:00.000Z";

/** The events that commands lead to; refused ones are left out. */
export function storyOf(jobId: string, commands: readonly Command[]): TidingsEvent[] {
  const events = [create({ jobId, jobType: "bulk_gift_analysis", summary: "2,000 employees" }, AT)];
  let job = fold(events);
  for (const command of commands) {
    const decision = decide(job, command, AT);
    if (!("events" in decision)) continue;
    events.push(...decision.events);
    job = fold(events);
  }
  return events;
}

export function fold(events: readonly TidingsEvent[]): Job {
  let job: Job | undefined;
  for (const event of events) job = reduce(job, event);
  if (job === undefined) throw new Error("no job");
  return job;
}

export function progress(percentage: number): Command {
  return { type: "progress", reports: [{ percentage, stage: `at ${percentage}`, stageKey: "match" }] };
}

export function complete(jobId: string): Command {
  return { type: "complete", resultResourceId: `job://${jobId}/result`, reports: [] };
}

/** created, started, 10, 40, 70, 100, completed: seven events. */
export function wholeStory(jobId: string): TidingsEvent[] {
  return storyOf(jobId, [{ type: "start" }, ...[10, 40, 70, 100].map(progress), complete(jobId)]);
}

const error = { code: "SOURCE_TIMEOUT", message: "The source did not answer.", retryable: true };

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.constant<Command>({ type: "start" }),
  fc.integer({ min: 0, max: 100 }).map(progress),
  fc.constant<Command>({ type: "retry", error, delayMs: 1000 }),
  fc.constant<Command>({
    type: "inform",
    events: [{ type: "system.degraded", source: "shop", message: "slow", since: AT }],
  }),
);

/** Any legal story, most often with an ending. */
export const anyStory: fc.Arbitrary<TidingsEvent[]> = fc
  .tuple(
    fc.array(command, { maxLength: 25 }),
    fc.option(
      fc.constantFrom<Command>(
        complete("job_1"),
        { type: "fail", error },
        { type: "cancel", canceledBy: "a person" },
      ),
    ),
  )
  .map(([commands, ending]) => storyOf("job_1", ending === null ? commands : [...commands, ending]));

/** A story as a careless network delivers it: every event at least once, some again, in any order. */
export const carelessDelivery: fc.Arbitrary<{ story: TidingsEvent[]; delivered: TidingsEvent[] }> =
  anyStory.chain((story) =>
    fc.array(fc.nat({ max: story.length - 1 }), { maxLength: 2 * story.length }).chain((again) =>
      fc
        .shuffledSubarray(
          [...story.keys(), ...again].map((index, place) => ({ index, place })),
          {
            minLength: story.length + again.length,
          },
        )
        .map((order) => ({ story, delivered: order.flatMap(({ index }) => story[index] ?? []) })),
    ),
  );
