/** Mistake 4 again: the tool takes an idempotency key, and forgets it. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { Fixture } from "./serve.ts";
import { tellOf } from "./serve.ts";

export const twoJobsForOneKey: Fixture = {
  register(server) {
    const tell = tellOf(server);
    const inputSchema = { idempotencyKey: z.string().optional() };
    server.registerTool("start_payment", { description: "Pays in the background", inputSchema }, () => {
      const jobId = randomUUID();
      setImmediate(async () => {
        const eventOf = (fields: object) => ({
          eventId: randomUUID(),
          jobId,
          timestamp: new Date().toISOString(),
          ...fields,
        });
        await tell("notifications/job/started", eventOf({}));
        await tell("notifications/job/completed", eventOf({ resultResourceId: "file:///receipt.pdf" }));
      });
      return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
    });
  },
};
