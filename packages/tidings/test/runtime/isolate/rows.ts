/** A worker on a store, in a process of its own: a hundred rows, and at the fiftieth of its first attempt it may stand still. */
import { createTidings, defineJob } from "tidings";
import { z } from "zod";

export const rows = defineJob("rows", {
  input: z.object({ blockMs: z.number() }),
  async run({ blockMs }, { attempt, checkpoint, resumed, progress, emit, signal }) {
    signal.addEventListener("abort", () => process.send?.({ error: signal.reason.code }));
    for (let row = Number(resumed ?? 0); row < 100; row += 1) {
      if (attempt === 1 && row === 50) {
        await emit({ type: "system.log", source: "rows", level: "info", message: "half" });
        const end = performance.now() + blockMs;
        while (performance.now() < end);
        // Time for somebody else to stop this process here.
        if (blockMs === 0) await new Promise((resolve) => setTimeout(resolve, 300));
      }
      await checkpoint(row + 1, (transaction) => transaction.append("rows", [{ row }]));
      await progress("work", (row + 1) / 100);
    }
    return { summary: `by ${process.pid}` };
  },
});

const [store] = process.argv.slice(2);
if (store !== undefined && process.send !== undefined) {
  const tidings = await createTidings({
    store,
    jobs: [rows],
    leaseMs: 1_000,
    onError: (error) => process.send?.({ error: (error as { code?: string }).code ?? String(error) }),
  });
  process.on("disconnect", () => process.exit(0));
  process.send({ ready: tidings.store });
}
