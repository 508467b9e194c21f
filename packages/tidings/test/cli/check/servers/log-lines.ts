/** Mistake 5: what happens to the job stands in log lines, and clients are to search them for "done". */
import { randomUUID } from "node:crypto";
import type { Fixture } from "./serve.ts";

export const logLines: Fixture = {
  register(server) {
    server.registerTool("start_analysis", { description: "Analyses in the background" }, () => {
      const jobId = randomUUID();
      setImmediate(async () => {
        await server.sendLoggingMessage({ level: "info", logger: "analysis", data: `job ${jobId}: started` });
        await server.sendLoggingMessage({
          level: "info",
          logger: "analysis",
          data: `job ${jobId}: 50 % done`,
        });
        await server.sendLoggingMessage({
          level: "info",
          logger: "analysis",
          data: { jobId, status: "completed" },
        });
      });
      return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
    });
  },
};
