/** Mistake 5 again: the heartbeat tells on the side that the job is done. */
import { randomUUID } from "node:crypto";
import type { Fixture } from "./serve.ts";
import { tellOf } from "./serve.ts";

export const busyHeartbeat: Fixture = {
  register(server) {
    const tell = tellOf(server);
    server.registerTool("start_analysis", { description: "Analyses in the background" }, () => {
      const jobId = randomUUID();
      setImmediate(async () => {
        const eventOf = (fields: object) => ({
          eventId: randomUUID(),
          timestamp: new Date().toISOString(),
          ...fields,
        });
        await tell("notifications/job/started", eventOf({ jobId }));
        await tell(
          "notifications/system/heartbeat",
          eventOf({ source: "worker-1", jobId, status: "running" }),
        );
        await tell(
          "notifications/system/heartbeat",
          eventOf({ source: "worker-1", jobId, status: "completed" }),
        );
      });
      return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
    });
  },
};
