/** A server as a user writes it, with jobs that would run for ever in their first two attempts. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/server";
import { createTidings, defineJob } from "tidings";
import { createHttpHandler } from "tidings/mcp";
import { z } from "zod";

const input = z.object({});

/** Works in small steps and listens to its signal. */
export const steady = defineJob("steady", {
  input,
  async run(_, { attempt, signal, checkpoint }) {
    for (let step = 1; attempt < 3; step += 1) {
      await checkpoint({ attempt, step });
      await pause(20, undefined, { signal });
    }
  },
});

/** Neither ends nor listens. */
export const stuck = defineJob("stuck", {
  input,
  run: (_, { attempt }) => (attempt < 3 ? new Promise<undefined>(() => undefined) : undefined),
});

/** Blocks its own process. */
export const spinning = defineJob("spinning", {
  input,
  isolate: true,
  async run(_, { attempt, log }) {
    await log("info", `pid ${process.pid}`);
    while (attempt < 3);
  },
});

const [store, port] = process.argv.slice(2);
if (store !== undefined && process.send !== undefined) {
  const tidings = await createTidings({ store, jobs: [steady, stuck, spinning], concurrency: 8 });
  const handler = createHttpHandler(tidings, {
    server: () => new McpServer({ name: "shutdown", version: "1.0.0" }),
  });
  const server = createServer((request, response) => void handler.handle(request, response));
  server.listen(Number(port), "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
  process.once("SIGTERM", async () => {
    server.close();
    await handler.close();
    await tidings.close({ graceMs: 1_000 });
    process.exit(0);
  });
}
