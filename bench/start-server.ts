/** A server with one job over SQLite, for the benchmark of starts: a process of its own. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/server";
import { createTidings, defineJob } from "tidings";
import { createHttpHandler, registerJob } from "tidings/mcp";
import { z } from "zod";

const work = defineJob("work", {
  input: z.object({ names: z.array(z.string()) }),
  run: ({ names }) => ({ summary: `${names.length} names` }),
});
const limits = {
  queuedJobsPerOwner: Number.POSITIVE_INFINITY,
  queuedBytesPerOwner: Number.POSITIVE_INFINITY,
};
const tidings = await createTidings({ store: process.argv[2] ?? "memory:", jobs: [work], limits });
const handler = createHttpHandler(tidings, {
  server: () => {
    const server = new McpServer({ name: "bench", version: "1.0.0" });
    registerJob(server, tidings, work, { tool: "start_work" });
    return server;
  },
});
const http = createServer((req, res) => void handler.handle(req, res));
process.on("disconnect", () => process.exit());
http.listen(0, "127.0.0.1", () => process.send?.((http.address() as AddressInfo).port));
