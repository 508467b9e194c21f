/**
 * The server that the torture kills: small jobs over an SQLite file, served over HTTP. It loads everything first and
 * opens the store when a line comes on stdin, so that a round of the torture costs no time for loading.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/server";
import { createTidings, defineJob } from "tidings";
import { createHttpHandler, registerJob } from "tidings/mcp";
import { z } from "zod";

const work = defineJob("work", {
  input: z.object({ name: z.string(), steps: z.number().int() }),
  // A job may be killed as often as the torture likes: it must end well all the same.
  attempts: 1_000_000,
  async run({ name, steps }, { resumed, checkpoint, progress, effectKey }) {
    for (let step = Number(resumed ?? 0); step < steps; step += 1) {
      await checkpoint(step + 1, (transaction) =>
        transaction.append("steps", [{ step, key: effectKey(name) }]),
      );
      await progress("work", (step + 1) / steps);
    }
    return { summary: `${name}: ${steps} steps`, result: { steps } };
  },
});

const say = (word: object): void => void process.stdout.write(`${JSON.stringify(word)}\n`);

say({ loaded: true });
await new Promise<void>((resolve) => process.stdin.once("data", () => resolve()));
process.stdin.on("end", () => process.exit(0)).resume();
say({ opening: true });
const tidings = await createTidings({ store: `sqlite:${process.argv[2]}`, jobs: [work] });
const handler = createHttpHandler(tidings, {
  server: () => {
    const server = new McpServer({ name: "torture", version: "1.0.0" });
    registerJob(server, tidings, work, { tool: "start_work" });
    return server;
  },
});
const server = createServer((request, response) => void handler.handle(request, response));
server.listen(0, "127.0.0.1", () => {
  say({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
});
