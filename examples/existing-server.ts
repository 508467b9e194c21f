/**
 * A server that exists already, with one line more: `node --import tsx --conditions=@tidings/source examples/existing-server.ts` speaks MCP on stdio.
 */
import { McpServer } from "@modelcontextprotocol/server";
import { createTidings, defineJob } from "tidings";
import { registerJob, serveTidingsStdio } from "tidings/mcp";
import { z } from "zod";

const wordCount = defineJob("word_count", {
  input: z.object({ texts: z.array(z.string()).min(1) }),
  stages: { count: 90, sum: 100 },
  async run({ texts }, { progress }) {
    let words = 0;
    for (const [index, text] of texts.entries()) {
      words += text.split(/\s+/u).filter((word) => word !== "").length;
      await progress("count", (index + 1) / texts.length);
    }
    return { summary: `${words} words`, result: { words } };
  },
});

const tidings = await createTidings({ store: process.env.TIDINGS_STORE ?? "memory:", jobs: [wordCount] });

const { closed } = serveTidingsStdio(tidings, () => {
  const server = new McpServer({ name: "texts", version: "1.0.0" });
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) }, ({ text }) => ({
    content: [{ type: "text", text }],
  }));
  registerJob(server, tidings, wordCount, { tool: "start_word_count" }); // the line that is new
  return server;
});
await closed;
await tidings.close();
