/** Mistake 1: an event is written like a log line. Nobody can say later which job it was about, or whether it is news. */
import { randomUUID } from "node:crypto";
import type { Fixture } from "./serve.ts";
import { tellOf } from "./serve.ts";

export const missingIds: Fixture = {
  register(server) {
    const tell = tellOf(server);
    server.registerTool("start_analysis", { description: "Analyses in the background" }, () => {
      const jobId = randomUUID();
      setImmediate(async () => {
        await tell("notifications/job/progress", { percentage: 10, stage: "Reading" });
        await tell("notifications/job/progress", { percentage: 60, stage: "Thinking" });
        await tell("notifications/job/completed", { summary: "Done" });
      });
      return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
    });
  },
};
