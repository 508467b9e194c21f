/** Mistake 2: each batch counts from zero. */
import { randomUUID } from "node:crypto";
import type { Fixture } from "./serve.ts";
import { tellOf } from "./serve.ts";

export const fallingProgress: Fixture = {
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
        for (const batch of ["first", "second"]) {
          for (const percentage of [20, 60, 90])
            await send("progress", { percentage, stage: `The ${batch} batch` });
        }
        await send("completed", {});
      });
      return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
    });
  },
};
