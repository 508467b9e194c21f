/** Who follows a job is noted for people: at little cost, whatever the readers call themselves. */
import { defineJob } from "tidings";
import { createManualClock } from "tidings/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { createMemoryEngine } from "../../src/engine/memory/index.ts";
import { systemRandom } from "../../src/engine/system-clock.ts";
import { noteReader, readersOf } from "../../src/runtime/reader.ts";
import { open } from "./story.ts";

const quick = defineJob("quick", { input: z.object({}), run: () => ({}) });

test("three thousand readers that come and go under names of their own leave one value of a hundred names, and few writes", async () => {
  const clock = createManualClock();
  const engine = createMemoryEngine({ clock, random: systemRandom });
  let writes = 0;
  const counted = {
    ...engine,
    transaction: ((owner, work) => {
      writes += 1;
      return engine.transaction(owner, work);
    }) satisfies typeof engine.transaction,
  };
  const tidings = await open({ store: counted, jobs: [quick], clock, concurrency: 0, sweep: false });
  const { jobId } = await tidings.start(quick, {});
  for (let count = 0; count < 3_000; count += 1) {
    noteReader(tidings, clock, { owner: "local", jobId, name: `agent ${count}`, cursor: `c${count}` });
    if (count % 1_000 === 999) clock.advance(5_000);
  }
  await expect.poll(() => writes).toBeLessThanOrEqual(4);
  const readers = await readersOf(tidings, "local", jobId);
  expect(readers).toHaveLength(100);
  expect(readers.at(-1)).toMatchObject({ name: "agent 2999", cursor: "c2999" });
  const values = await tidings.transaction("local", (transaction) =>
    transaction.list("dev.tidings/", 10_000),
  );
  expect(values).toHaveLength(1);
});

test("a reader's newest cursor is the one that is noted, also when it leaves at once", async () => {
  const clock = createManualClock();
  const tidings = await open({ store: "memory:", jobs: [quick], clock, concurrency: 0 });
  const { jobId } = await tidings.start(quick, {});
  const note = (cursor: string) =>
    noteReader(tidings, clock, { owner: "local", jobId, name: "page", cursor });
  note("first");
  note("second");
  note("third");
  clock.advance(5_000);
  expect(await readersOf(tidings, "local", jobId)).toMatchObject([{ name: "page", cursor: "third" }]);
  expect(await readersOf(tidings, "somebody else", jobId)).toEqual([]);
});
