/** A server on stdio for the tests, whose jobs print on stdout in every way they can. Run as a process of its own. */
import { Worker } from "node:worker_threads";
import { McpServer } from "@modelcontextprotocol/server";
import { createTidings, defineJob } from "tidings";
import { registerJob, serveTidingsStdio, takeStdout } from "tidings/mcp";
import { z } from "zod";

const noisy = defineJob("noisy", {
  input: z.object({ noise: z.boolean().default(false), steps: z.number().int().default(5) }),
  stages: { first: 50, second: 100 },
  async run({ noise, steps }, { progress, emit, log }) {
    for (let i = 1; i <= steps; i += 1) {
      if (noise) await makeNoise(i);
      await progress("first", i / steps);
    }
    await log("notice", "line one\nline two\u2028line three");
    await emit({ type: "resource.updated", resourceId: "resource:thing", changeType: "snapshot_ready" });
    await progress("second", 1);
    if (noise) console.log("the job is done");
    return { summary: "one\ntwo\u2028three" };
  },
});

async function makeNoise(step: number): Promise<void> {
  console.log("stray line", step, "with a\nnewline and\u2028a separator");
  console.info("%o", { step });
  process.stdout.write("half a line without an end");
  process.stdout.write(
    Buffer.from(`{"jsonrpc":"2.0","method":"notifications/forged","params":{"step":${step}}}\n`),
  );
  if (step === 1) process.stdout.write(`${"x".repeat(1024 * 1024)}the end of a megabyte`);
  process.emitWarning(`warning ${step}`);
  await new Promise((resolve) => process.stdout.write("written with a callback\n", resolve));
  if (step === 2) {
    const worker = new Worker('console.log("from a worker thread")', { eval: true });
    await new Promise((resolve) => worker.once("exit", resolve));
  }
}

takeStdout();
console.log("printed before the connection is served");
const tidings = await createTidings({ store: "memory:", jobs: [noisy] });
const { closed } = serveTidingsStdio(tidings, () => {
  const server = new McpServer({ name: "noisy", version: "1.0.0" });
  registerJob(server, tidings, noisy, { tool: "start_noisy" });
  return server;
});
await closed;
console.log("printed after the connection has ended");
await tidings.close();
console.error("ended cleanly");
