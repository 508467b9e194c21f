/** Mistake 3: the end is told from two places that do not know of each other, and a late report follows. */
import { randomUUID } from "node:crypto";
import type { Fixture } from "./serve.ts";
import { tellOf } from "./serve.ts";

export const illegalSequence: Fixture = {
  register(server) {
    const tell = tellOf(server);
    server.registerTool("start_analysis", { description: "Analyses in the background" }, () => {
      const jobId = randomUUID();
      const send = (type: string, fields: Record<string, unknown>) =>
        tell(`notifications/job/${type}`, {
          eventId: randomUUID(),
          jobId,
          timestamp: new Date().toISOString(),
          ...fields,
        });
      setImmediate(async () => {
        await send("started", {});
        await send("progress", { percentage: 50, stage: "Half" });
        await send("completed", { resultResourceId: "file:///result.json" });
        await send("progress", { percentage: 99, stage: "Nearly" });
        await send("failed", { error: { code: "TIMEOUT", message: "Took too long." } });
      });
      return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
    });
  },
};
