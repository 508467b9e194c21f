import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect as connectSocket, createServer as createProxy } from "node:net";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { McpServer } from "@modelcontextprotocol/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import type { Gap } from "../../src/client/index.ts";
import { follow } from "../../src/client/index.ts";
import { createSeededRandom } from "../../src/engine/testing/seeded-random.ts";
import { mcpSource } from "../../src/mcp/client/index.ts";
import { createHttpHandler } from "../../src/mcp/server/http-handler.ts";
import { registerJob } from "../../src/mcp/server/register-job.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { createTidings } from "../../src/runtime/create-tidings.ts";
import { defineJob } from "../../src/runtime/define-job.ts";

const LINES = 40;

/** A server whose job goes on from line to line only when its reader has heard the last one. */
async function serve() {
  const heard = new Map<string, () => void>();
  const paced = defineJob("paced", {
    input: z.object({}),
    async run(_, { log }) {
      for (let line = 1; line <= LINES; line += 1) {
        const message = `line ${line}`;
        const isHeard = new Promise<void>((resolve) => heard.set(message, resolve));
        await log("info", message);
        if (line % 2 === 0) await isHeard;
      }
    },
  });
  const tidings = await createTidings({ store: "memory:", jobs: [paced] });
  const handler = createHttpHandler(tidings, {
    server: () => {
      const server = new McpServer({ name: "paced", version: "1" });
      registerJob(server, tidings, paced, { tool: "start_paced" });
      return server;
    },
  });
  const server = createServer((req, res) => void handler.handle(req, res));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    await handler.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await tidings.close();
  });
  return { tidings, paced, heard, port: (server.address() as AddressInfo).port };
}

/** Passes bytes on, and cuts each connection that carries a listen after as many bytes of answers as `budget` says. */
async function cutListens(target: number, budget: () => number) {
  let cuts = 0;
  const open = new Set<{ destroy(): void }>();
  const proxy = createProxy((client) => {
    const server = connectSocket(target, "127.0.0.1");
    let left = Number.POSITIVE_INFINITY;
    const end = () => {
      for (const socket of [client, server]) {
        socket.destroy();
        open.delete(socket);
      }
    };
    for (const socket of [client, server]) {
      open.add(socket);
      socket.on("error", end).on("close", end);
    }
    client.on("data", (bytes) => {
      if (bytes.includes("subscriptions/listen")) left = Math.min(left, budget());
      server.write(bytes);
    });
    server.on("data", (bytes) => {
      const passed = bytes.subarray(0, left);
      left -= passed.length;
      if (left > 0) {
        client.write(passed);
        return;
      }
      cuts += 1;
      left = Number.POSITIVE_INFINITY;
      client.write(passed, end);
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => proxy.close(resolve));
  });
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, cuts: () => cuts };
}

describe("following a running job by subscriptions/listen through connections that break", () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    "loses and doubles nothing, cut at random bytes (seed %i)",
    async (seed) => {
      const random = createSeededRandom(seed);
      const { tidings, paced, heard, port } = await serve();
      const { url, cuts } = await cutListens(port, () => Math.floor(random.fraction() * 4_000));
      const client = new Client(
        { name: "test", version: "1" },
        { versionNegotiation: { mode: { pin: "2026-07-28" } } },
      );
      await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
      onTestFinished(() => client.close());
      const { jobId, cursor } = await tidings.start(paced, {});
      const gaps: Gap[] = [];
      const events: TidingsEvent[] = [];
      const story = follow(paced, {
        source: mcpSource(client),
        jobId,
        after: cursor,
        random: { id: () => "x", fraction: () => 0 },
        onGap: (gap) => void gaps.push(gap),
      });
      for await (const event of story) {
        events.push(event as TidingsEvent);
        if (event.type === "system.log") heard.get(event.message)?.();
      }
      const log = await tidings.read({ owner: "local", jobIds: [jobId], limit: 1_000 });
      expect(events).toEqual(log.events.map(({ event }) => event));
      expect(events.filter(({ type }) => type === "system.log")).toHaveLength(LINES);
      expect(gaps).toEqual([]);
      expect(cuts()).toBeGreaterThan(3);
    },
  );
});
