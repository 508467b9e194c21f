/** The page folds stories by a function of its own; it must end where the library's one fold does. */
import fc from "fast-check";
import type { Job, TidingsEvent } from "tidings";
import { reduce } from "tidings/client";
import { expect, test } from "vitest";
import { anyCommand, JOB_ID, newborn, play } from "../../../../packages/tidings/test/model/generate.ts";

interface PageStory {
  readonly status: string;
  readonly percentage: number;
  readonly attempt: number;
  readonly seq: number;
  readonly error?: unknown;
  readonly canceledBy?: string;
  readonly resultResourceId?: string;
  readonly summary?: string;
}

interface StoryModule {
  newStory(jobId: string): PageStory;
  foldEvent(story: PageStory, event: unknown, cursor: string): boolean;
}

const PAGE = new URL("../../src/page/story.js", import.meta.url).href;
const { newStory, foldEvent } = (await import(PAGE)) as StoryModule;

/** What both folds know of a job. */
function facts({ status, percentage, attempt, seq, ...rest }: PageStory | Job) {
  const { resultResourceId, canceledBy, summary } = rest;
  const error = status === "failed" ? rest.error : undefined;
  return { status, percentage, attempt, seq, error, resultResourceId, canceledBy, summary };
}

function both(events: readonly TidingsEvent[]) {
  const story = newStory(JOB_ID);
  let job: Job | undefined;
  for (const event of events) {
    foldEvent(story, event, "c");
    job = reduce(job, event);
  }
  return { page: facts(story), library: facts(job as Job) };
}

const commands = fc.array(anyCommand, { maxLength: 25 });

test("the page shows the status, percentage and ending that the library's fold has", () => {
  fc.assert(
    fc.property(commands, (given) => {
      const { page, library } = both(play(given).events);
      expect(page).toEqual(library);
    }),
  );
});

test("repeats, old events and events after the end change neither", () => {
  const places = fc.array(fc.nat(), { maxLength: 10 });
  fc.assert(
    fc.property(commands, commands, places, (given, more, repeated) => {
      const { events } = play(given);
      const told: TidingsEvent[] = [];
      for (const [index, event] of events.entries()) {
        told.push(event);
        for (const at of repeated) if (at % events.length === index) told.push(...events.slice(0, index + 1));
      }
      // What a confused server might tell behind the end: another story's events under the next numbers.
      const isOver = /^job\.(completed|failed|canceled)$/.test(events.at(-1)?.type ?? "");
      const tail = play(more, newborn()).events.map((event, index) => ({
        ...event,
        eventId: `late-${index}`,
        seq: events.length + index + 1,
      }));
      const { page, library } = both(isOver ? [...told, ...(tail as TidingsEvent[])] : told);
      expect({ ...page, seq: 0 }).toEqual({ ...library, seq: 0 });
      expect({ ...library, seq: 0 }).toEqual({ ...both(events).library, seq: 0 });
    }),
  );
});
