/** The examples do what they say: they are run as a reader would run them, against real servers. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { follow } from "tidings/client";
import { mcpSource } from "tidings/mcp/client";
import { describe, expect, test } from "vitest";
import { RUN_ARGS, startServer } from "../apps/giftgenius/src/demo/server-process.ts";
import { runAgent } from "./agent.ts";
import { main as runShop } from "./order-paid.ts";

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

describe("order-paid.ts", () => {
  test.each(["memory:", "sqlite"])(
    "credits each payment once, however often it is told (%s)",
    async (kind) => {
      const folder = await mkdtemp(join(tmpdir(), "shop-"));
      const store = kind === "sqlite" ? `sqlite:${join(folder, "shop.db")}` : kind;
      const lines: string[] = [];
      expect(await runShop(store, (line) => lines.push(line))).toBe(700);
      expect(lines).toEqual([
        "payment p-1 of order o-1: bonus of 500 cents",
        "payment p-2 of order o-2: bonus of 200 cents",
        "bonus in all: 700 cents",
      ]);
      // The next run finds the payments credited already, by the record that was kept with the bonus.
      if (kind === "sqlite") expect(await runShop(store, () => undefined)).toBe(700);
      await rm(folder, { recursive: true, force: true });
    },
  );
});

describe("agent.ts", () => {
  test("reads the hint of a failed job, corrects the file, starts again and reads the result", async () => {
    const server = await startServer({ TIDINGS_STORE: "memory:", PORT: "0" });
    const lines: string[] = [];
    const result = await runAgent(`${server.url}/mcp`, (line) => lines.push(line));
    await server.stop();
    expect(lines).toContain("job.failed");
    expect(lines.find((line) => line.startsWith("the server's hint:"))).toContain("email");
    expect(lines.at(-1)).toBe("job.completed");
    expect(result).toMatchObject({
      counts: { total: 2, accepted: 2, rejected: 0 },
      recommendations: [{ email: "ada@example.com" }, { email: "bo@example.com" }],
    });
  });
});

describe.each([
  {
    file: "existing-server.ts",
    tool: "start_word_count",
    input: { texts: ["one two", "three"] },
    result: { words: 3 },
  },
  { file: "first-server.ts", tool: "greet_everybody", input: { names: ["Ada"] }, result: ["Hello Ada"] },
])("$file", ({ file, tool, input, result }) => {
  test("tells its job's story to the official client over stdio", async () => {
    const folder = await mkdtemp(join(tmpdir(), "example-"));
    const client = new Client({ name: "example", version: "1.0.0" });
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [...RUN_ARGS, here(file)], cwd: folder }),
    );
    const answer = await client.callTool({ name: tool, arguments: input });
    const { jobId } = answer.structuredContent as { jobId: string };
    const types: string[] = [];
    for await (const event of follow({ source: mcpSource(client), jobId })) types.push(event.type);
    expect([types[0], types[1], types.at(-1)]).toEqual(["job.created", "job.started", "job.completed"]);
    const { contents } = await client.readResource({ uri: `job://${jobId}/result` });
    expect(JSON.parse((contents[0] as { text: string }).text)).toEqual(result);
    await client.close();
    await rm(folder, { recursive: true, force: true });
  });
});

test("the program in the README is first-server.ts, and shorter than 20 lines", async () => {
  const readme = await readFile(here("../README.md"), "utf8");
  const program = await readFile(here("first-server.ts"), "utf8");
  expect(readme).toContain(`\`\`\`ts\n${program}\`\`\``);
  expect(program.trim().split("\n").length).toBeLessThan(20);
});
