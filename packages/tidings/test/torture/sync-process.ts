/** Starts jobs and writes each acknowledgement to a file; traced by the test beside it, never run by itself. */
import { openSync, writeSync } from "node:fs";
import { createTidings, defineJob } from "tidings";
import { z } from "zod";

const [store = "", acknowledgements = "", synchronous = "FULL"] = process.argv.slice(2);

const work = defineJob("work", { input: z.object({ number: z.number() }), run: () => ({ result: "done" }) });
const tidings = await createTidings({ store: `sqlite:${store}`, jobs: [work], concurrency: 0 });
if (synchronous !== "FULL") {
  // The seeded mistake: a store as one would open it who wants to be fast. It cannot be set inside a transaction.
  await tidings.transaction("local", ({ sql }) => {
    const database = sql as { exec(text: string): void };
    database.exec(`COMMIT; PRAGMA synchronous = ${synchronous}; BEGIN IMMEDIATE`);
  });
}
const file = openSync(acknowledgements, "a");

async function startSome(from: number, count: number): Promise<void> {
  for (let number = from; number < from + count; number += 1) {
    const { jobId } = await tidings.start(work, { number });
    writeSync(file, `ack ${jobId}\n`);
  }
}

// One after the other, and several that share commits.
await startSome(0, 20);
await Promise.all(Array.from({ length: 8 }, (_, index) => startSome(100 * (index + 1), 10)));
await tidings.close();
