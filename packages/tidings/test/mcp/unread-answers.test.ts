/** Readers that do not take an answer to its end, of a tool that has much to say. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import { cutWhenUnread, sendJson } from "../../src/mcp/server/http-message.ts";
import { advancing } from "../runtime/story.ts";
import { ENVELOPE, initialize, MODERN, modern } from "./http-mcp.ts";
import { createWorld } from "./http-world.ts";

const STALL_MS = 60_000;
const MEGABYTE = 1_000_000;
const LENGTH = 20 * MEGABYTE;

async function open() {
  const clock = createManualClock();
  const server = () => {
    const server = new McpServer({ name: "big", version: "1.0.0" });
    server.registerTool("big", { inputSchema: z.object({}) }, async () => ({
      content: [{ type: "text", text: "x".repeat(LENGTH) }],
    }));
    return server;
  };
  const world = await createWorld({ clock, stallMs: STALL_MS, server });
  onTestFinished(() => world.close());
  return { world, clock };
}

/** Sends a request and takes nothing of its answer. Resolves with the server's side of it. */
async function stall(port: number, body: object, headers: Record<string, string>): Promise<void> {
  const text = JSON.stringify(body);
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.pause();
  const all = {
    Host: "localhost",
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Content-Length": String(text.length),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST /mcp HTTP/1.1\r\n${lines.join("")}\r\n${text}`);
}

describe("security 22: an answer of 20 MB that nobody reads is cut after the stall time", () => {
  it.each(["2025-11-25", "2026-07-28"])("on %s", async (era) => {
    const { world, clock } = await open();
    const params = { name: "big", arguments: {} };
    const isModern = era === MODERN;
    const session = isModern ? "" : await initialize(world.url);
    const asked = once(world.server, "request");
    await stall(
      world.port,
      {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: isModern ? { ...params, _meta: ENVELOPE } : params,
      },
      isModern
        ? { "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "big" }
        : { "MCP-Protocol-Version": era, "Mcp-Session-Id": session },
    );
    const [, res] = (await asked) as [unknown, ServerResponse];
    let isTaken = false;
    res.once("finish", () => {
      isTaken = true;
    });
    await advancing(clock, once(res, "close"));
    expect(isTaken).toBe(false);
    expect(world.errors).toEqual([]);
  });

  it("also when it was said to the end, and only the rest of it waits for its reader", async () => {
    const clock = createManualClock();
    const server = createServer((_, res) => {
      sendJson(res, 200, "x".repeat(LENGTH));
      cutWhenUnread(res, { clock, stallMs: STALL_MS });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const asked = once(server, "request");
    await stall((server.address() as AddressInfo).port, {}, {});
    const [, res] = (await asked) as [unknown, ServerResponse];
    clock.advance(STALL_MS - 1);
    expect(res.destroyed).toBe(false);
    clock.advance(1);
    expect(res.destroyed).toBe(true);
  });

  it("while a reader that takes its time within it is given all", async () => {
    const { world, clock } = await open();
    const answer = await modern(world.url, "tools/call", { name: "big", arguments: {} });
    let length = 0;
    let until = MEGABYTE;
    for await (const chunk of answer.body ?? []) {
      length += chunk.length;
      if (length < until) continue;
      until += MEGABYTE;
      clock.advance(5_000);
      for (let at = 0; at < 20; at++) await turn();
    }
    expect(length).toBeGreaterThan(LENGTH);
  });
});
