/** Jobs whose handlers harm their own process, and one that does not. */
import { writeSync } from "node:fs";
import { defineJob, PermanentError, RetryAfter } from "tidings";
import { z } from "zod";

const input = z.object({ times: z.number().optional() });
const isolate = true;

export const healthy = defineJob("healthy", {
  input,
  isolate,
  stages: { work: 100 },
  async run(_, { progress, checkpoint, count, effectKey }) {
    const key = effectKey("mail to ann");
    count({ rows: 1 });
    await checkpoint({ at: 1 }, (transaction) => transaction.append("gifts", [{ key }]));
    await progress("work", 0.5);
    count({ rows: 2 });
    effectKey("mail to bob");
    return { summary: `by process ${process.pid}`, result: { pid: process.pid } };
  },
});

export const exits = defineJob("exits", {
  input,
  isolate,
  run: () => process.exit(137),
});

export const exitsAtRow50 = defineJob("exits_at_row_50", {
  input,
  isolate,
  async run(_, { checkpoint, resumed }) {
    for (let row = Number(resumed ?? 0); row < 100; row += 1) {
      if (row === 50) process.exit(137);
      await checkpoint(row + 1);
    }
  },
});

export const loops = defineJob("loops", {
  input,
  isolate,
  timeoutMs: 700,
  async run(_, { log }) {
    await log("info", `pid ${process.pid}`);
    for (;;);
  },
});

/** Loops for ever, and says where it does. */
export const spins = defineJob("spins", {
  input,
  isolate,
  async run(_, { log }) {
    await log("info", `pid ${process.pid}`);
    for (;;);
  },
});

export const eats = defineJob("eats", {
  input,
  attempts: 1,
  isolate: { module: import.meta.url, maxMemoryMb: 32 },
  run() {
    const eaten: number[][] = [];
    for (;;) eaten.push(Array.from({ length: 100_000 }, (_, index) => index));
  },
});

export const throwsLater = defineJob("throws_later", {
  input,
  isolate,
  attempts: 1,
  async run() {
    setTimeout(() => {
      throw new Error("nobody awaits this");
    }, 1);
    await new Promise(() => {});
  },
});

export const refuses = defineJob("refuses", {
  input,
  isolate,
  run() {
    throw new PermanentError("NO_SUCH_SHOP", "The shop does not exist.", { hint: "Choose another." });
  },
});

export const waits = defineJob("waits", {
  input,
  isolate,
  run(_, { attempt }) {
    if (attempt === 1) throw new RetryAfter(50, "The shop is busy.", { code: "SHOP_BUSY" });
    return { summary: "the second time" };
  },
});

export const prints = defineJob("prints", {
  input,
  isolate,
  run() {
    writeSync(1, "a line on standard output\n");
    console.log("and another");
  },
});

/** Loops for ever inside a transaction, where nobody else can write. */
export const hogs = defineJob("hogs", {
  input,
  isolate,
  attempts: 1,
  async run(_, { checkpoint }) {
    await checkpoint({}, async (transaction) => {
      await transaction.append("rows", [1]);
      for (;;);
    });
  },
});

export const returnsNoJson = defineJob("returns_no_json", {
  input,
  isolate,
  run: () => ({ result: 1n }),
});

export const misplaced = defineJob("misplaced", {
  input,
  isolate: { module: new URL("./nowhere.ts", import.meta.url).href },
  attempts: 1,
  run: () => undefined,
});
