import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import type { Transport } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { describe, expect, it, onTestFinished } from "vitest";
import { follow } from "../../src/client/index.ts";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { McpClient } from "../../src/mcp/client/index.ts";
import { mcpSource } from "../../src/mcp/client/index.ts";
import { tap } from "../../src/mcp/client/tap.ts";
import { serveTidingsStdio } from "../../src/mcp/server/serve-stdio.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { createTidings } from "../../src/runtime/create-tidings.ts";
import { createGate, failing, gated, gates, quick, serverFactory } from "../mcp/http-world.ts";

const SERVER = {
  command: process.execPath,
  args: [
    "--import",
    "tsx",
    "--conditions=@tidings/source",
    fileURLToPath(new URL("../mcp/stdio-server.ts", import.meta.url)),
  ],
  stderr: "ignore" as const,
};

async function connect(era: "2025" | "2026" | "v1"): Promise<McpClient> {
  const info = { name: "test", version: "1" };
  if (era === "v1") {
    const client = new ClientV1(info);
    await client.connect(new TransportV1(SERVER));
    onTestFinished(() => client.close());
    return client;
  }
  const client = new Client(
    info,
    era === "2026" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {},
  );
  await client.connect(new StdioClientTransport(SERVER));
  onTestFinished(() => client.close());
  return client;
}

async function call(client: McpClient, name: string, args: Record<string, unknown>) {
  const answer = (await client.callTool({ name, arguments: args })) as { structuredContent: unknown };
  return answer.structuredContent as { jobId: string; cursor: string; events: { eventId: string }[] };
}

describe("following a job over an MCP client on stdio", () => {
  it.each(["2025", "2026", "v1"] as const)(
    "tells the whole story while the server's process prints (%s)",
    async (era) => {
      const client = await connect(era);
      const { jobId, cursor } = await call(client, "start_noisy", { noise: true });
      for (const after of [{ after: cursor }, {}]) {
        const events: TidingsEvent[] = [];
        const states: string[] = [];
        const story = follow({
          source: mcpSource(client),
          jobId,
          ...after,
          onConnection: ({ state }) => states.push(state),
        });
        for await (const event of story) events.push(event as TidingsEvent);
        const log = await call(client, "get_job_events", { jobId });
        expect(events.map(({ eventId }) => eventId)).toEqual(log.events.map(({ eventId }) => eventId));
        expect(story.job).toMatchObject({ status: "completed", percentage: 100 });
        expect(states).not.toContain("reconnecting");
      }
    },
  );

  it("does not open a listen again that is quiet and has heartbeats", async () => {
    const clock = createManualClock();
    const tidings = await createTidings({ store: "memory:", jobs: [quick, gated, failing] });
    onTestFinished(() => tidings.close());
    const [stdin, stdout] = [new PassThrough(), new PassThrough()];
    const handle = serveTidingsStdio(tidings, serverFactory(tidings), { stdin, stdout, clock });
    onTestFinished(() => handle.close());
    const client = new Client(
      { name: "test", version: "1" },
      { versionNegotiation: { mode: { pin: "2026-07-28" } } },
    );
    // The transport is the same in both directions.
    await client.connect(new StdioServerTransport(stdout, stdin) as Transport);
    onTestFinished(() => client.close());
    let beats = 0;
    let acknowledged = 0;
    const stop = tap(client.transport as object, (message) => {
      const { method } = message as { method?: string };
      if (method === "notifications/system/heartbeat") beats += 1;
      if (method === "notifications/subscriptions/acknowledged") acknowledged += 1;
    });
    onTestFinished(stop);
    const gate = createGate();
    gates.set("quiet", gate);
    const { jobId, cursor: after } = await tidings.start(gated, { gate: "quiet" });
    const events: TidingsEvent[] = [];
    for await (const event of follow({ source: mcpSource(client, { clock }), jobId, after, clock })) {
      events.push(event as TidingsEvent);
      if (event.type !== "job.progress" || beats > 0) continue;
      void (async () => {
        for (let beat = 1; beat <= 8; beat += 1) {
          await settled();
          clock.advance(15_000);
          while (beats < beat) await settled();
        }
        await settled();
        gate.open();
      })();
    }
    const log = await tidings.read({ owner: "local", jobIds: [jobId], limit: 1_000 });
    expect(events).toEqual(log.events.map(({ event }) => event));
    expect(acknowledged).toBe(1);
  });
});

/** What has arrived has been dealt with. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
