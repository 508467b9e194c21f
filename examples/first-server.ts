import { McpServer } from "@modelcontextprotocol/server";
import { createTidings, defineJob } from "tidings";
import { registerJob, serveTidingsStdio } from "tidings/mcp";
import { z } from "zod";

const greet = defineJob("greet", {
  input: z.object({ names: z.array(z.string()).min(1) }),
  async run({ names }, { progress }) {
    for (const index of names.keys()) await progress("work", (index + 1) / names.length);
    return { summary: `${names.length} greetings`, result: names.map((name) => `Hello ${name}`) };
  },
});
const tidings = await createTidings({ store: "sqlite:./data/jobs.db", jobs: [greet] });
const connection = serveTidingsStdio(tidings, () => {
  const server = new McpServer({ name: "greeter", version: "1.0.0" });
  registerJob(server, tidings, greet, { tool: "greet_everybody" });
  return server;
});
void connection.closed.then(() => tidings.close());
