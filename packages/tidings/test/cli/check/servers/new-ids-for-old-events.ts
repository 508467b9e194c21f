/** Mistake 4: whoever comes back is told everything again, as if it were new. */
import { randomUUID } from "node:crypto";
import type { Fixture } from "./serve.ts";
import { tellOf } from "./serve.ts";

export function newIdsForOldEvents(): Fixture {
  const history: { method: string; params: Record<string, unknown> }[] = [];
  const stamp = (params: Record<string, unknown>) => ({
    eventId: randomUUID(),
    timestamp: new Date().toISOString(),
    ...params,
  });
  return {
    isReplaying: false,
    onStream(server) {
      for (const { method, params } of history) void tellOf(server)(method, stamp(params));
    },
    register(server) {
      server.registerTool("start_analysis", { description: "Analyses in the background" }, () => {
        const jobId = randomUUID();
        const send = async (type: string, fields: Record<string, unknown>) => {
          const [method, params] = [`notifications/job/${type}`, { jobId, ...fields }];
          history.push({ method, params });
          await tellOf(server)(method, stamp(params));
        };
        setImmediate(async () => {
          await send("started", {});
          await send("progress", { percentage: 30, stage: "Reading" });
          await send("progress", { percentage: 80, stage: "Writing" });
          await send("completed", { resultResourceId: "file:///result.json" });
        });
        return { content: [{ type: "text", text: JSON.stringify({ jobId }) }] };
      });
    },
  };
}
