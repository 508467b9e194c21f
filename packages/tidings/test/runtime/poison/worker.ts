/** A worker whose handlers run in its own process: one of them ends it, or keeps it from doing anything. */
import { setTimeout as pause } from "node:timers/promises";
import { createTidings, defineJob } from "tidings";
import { z } from "zod";

export const poison = defineJob("poison", {
  input: z.object({ how: z.enum(["exits at once", "exits at row 50", "loops"]) }),
  async run({ how }, { checkpoint, log, resumed }) {
    if (how === "exits at once") process.exit(137);
    for (let row = Number(resumed ?? 0); row < 100; row += 1) {
      if (row === 50 && how === "exits at row 50") process.exit(137);
      if (row === 50) {
        await log("info", "about to loop");
        for (;;);
      }
      await checkpoint(row + 1);
    }
  },
});

/** Takes long enough to be there when the other one strikes. */
export const healthy = defineJob("healthy", {
  input: z.object({}),
  async run(_, { checkpoint, resumed }) {
    for (let row = Number(resumed ?? 0); row < 20; row += 1) {
      await checkpoint(row + 1, (transaction) => transaction.append("rows", [row]));
      await pause(10);
    }
  },
});

const [store] = process.argv.slice(2);
if (store !== undefined && process.send !== undefined) {
  // Says that it lives, as a health check asks.
  process.send("alive");
  await createTidings({ store, jobs: [poison, healthy], leaseMs: 2_000, onError: () => undefined });
  process.on("disconnect", () => process.exit(0));
  setInterval(() => process.send?.("alive"), 50);
}
