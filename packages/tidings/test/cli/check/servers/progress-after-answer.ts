/** Mistake 6: the tool answers at once, and its job goes on with the progress token of the call. */
import { randomUUID } from "node:crypto";
import type { Fixture } from "./serve.ts";
import { tellOf } from "./serve.ts";

export const progressAfterAnswer: Fixture = {
  register(server) {
    const tell = tellOf(server);
    server.registerTool("start_analysis", { description: "Analyses in the background" }, ({ _meta }) => {
      const jobId = randomUUID();
      // Long after the answer, as far as machines are concerned.
      setTimeout(async () => {
        for (const progress of [10, 50, 100]) {
          await tell("notifications/progress", { progressToken: _meta?.progressToken, progress, total: 100 });
        }
      }, 700);
      return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
    });
  },
};
