/** One job, followed by three paths at once, while the whole server goes away half-way and comes back. */
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import type { FollowTarget } from "../../src/client/index.ts";
import { follow } from "../../src/client/index.ts";
import { mcpSource, pollSource } from "../../src/mcp/client/index.ts";
import { createHttpHandler } from "../../src/mcp/server/http-handler.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { createTidings } from "../../src/runtime/create-tidings.ts";
import { createGate, failing, gated, gates, quick, serverFactory } from "../mcp/http-world.ts";
import { fold } from "./stories.ts";

async function serve(path: string, port: number) {
  const tidings = await createTidings({ store: `sqlite:${path}`, jobs: [quick, gated, failing] });
  const handler = createHttpHandler(tidings, { server: serverFactory(tidings) });
  const server = createServer((req, res) => void handler.handle(req, res));
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    tidings,
    port: (server.address() as AddressInfo).port,
    async stop() {
      await tidings.close();
      await handler.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe("a server that is restarted", () => {
  it("costs no reader an event, and gives none twice", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tidings-client-"));
    const path = join(folder, "jobs.db");
    const gate = createGate();
    gates.set("restart", gate);
    let running = await serve(path, 0);
    const { port } = running;
    const clients: Client[] = [];
    const connect = (modern: boolean) => async () => {
      const mode = modern ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {};
      const client = new Client({ name: "test", version: "1" }, mode);
      await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`)));
      clients.push(client);
      return client;
    };
    try {
      const { jobId, cursor } = await running.tidings.start(gated, { gate: "restart" });
      const waiting: (() => void)[] = [];
      const read = async (target: FollowTarget) => {
        const events: TidingsEvent[] = [];
        const story = follow(target);
        for await (const event of story) {
          events.push(event as TidingsEvent);
          if (event.type === "job.progress") waiting.shift()?.();
        }
        return { events, job: story.job };
      };
      const targets: FollowTarget[] = [
        { url: `http://127.0.0.1:${port}`, jobId },
        { source: mcpSource(connect(true)), jobId, after: cursor },
        { source: mcpSource(connect(false)), jobId },
        { source: pollSource(connect(true), { waitSeconds: 1 }), jobId },
      ];
      const begun = Promise.all(targets.map(() => new Promise<void>((resolve) => waiting.push(resolve))));
      const stories = targets.map(read);
      await begun;
      await running.stop();
      running = await serve(path, port);
      gate.open();
      const told = await Promise.all(stories);
      const page = await running.tidings.read({ owner: "local", jobIds: [jobId] });
      const events = page.events.map(({ event }) => event);
      for (const story of told) expect(story).toEqual({ events, job: fold(events) });
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, n) => n + 1));
      expect(fold(events)).toMatchObject({ status: "completed", percentage: 100 });
    } finally {
      for (const client of clients) await client.close();
      await running.stop();
      await rm(folder, { recursive: true });
    }
  });
});
