import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterEach, describe, expect, it } from "vitest";
import type { Connection, FollowTarget } from "../../src/client/index.ts";
import { follow } from "../../src/client/index.ts";
import type { McpClient } from "../../src/mcp/client/index.ts";
import { mcpSource, pollSource } from "../../src/mcp/client/index.ts";
import { tap } from "../../src/mcp/client/tap.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import type { World } from "../mcp/http-world.ts";
import { createGate, createWorld, gated, gates, quick } from "../mcp/http-world.ts";

const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function setUp(): Promise<World> {
  const world = await createWorld();
  closing.push(() => world.close());
  return world;
}

async function connect({ url }: World, era: "2025" | "2026" | "v1"): Promise<McpClient> {
  const address = new URL(`${url}/mcp`);
  const info = { name: "test", version: "1" };
  if (era === "v1") {
    const client = new ClientV1(info);
    await client.connect(new TransportV1(address) as never);
    closing.push(() => client.close());
    return client;
  }
  const client = new Client(
    info,
    era === "2026" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {},
  );
  await client.connect(new StreamableHTTPClientTransport(address));
  closing.push(() => client.close());
  return client;
}

async function log({ tidings }: World, jobId: string): Promise<TidingsEvent[]> {
  const { events } = await tidings.read({ owner: "local", jobIds: [jobId], limit: 1000 });
  return events.map(({ event }) => event);
}

/** What was asked of the server since the client connected. */
function used({ seen }: World): string[] {
  const tools = seen.flatMap(({ method, path, rpc }) =>
    path.startsWith("/jobs") ? [`${method} /jobs`] : rpc === undefined ? [] : [rpc],
  );
  return [...new Set(tools)].filter(
    (name) => !/initialize|initialized|discover|cancelled|tools\/list/.test(name),
  );
}

let gateNumber = 0;

function addGate() {
  gateNumber += 1;
  const name = `client-${gateNumber}`;
  const gate = createGate();
  gates.set(name, gate);
  return { gate, name };
}

async function startGated(world: World) {
  const { gate, name } = addGate();
  const started = await world.tidings.start(gated, { gate: name });
  return { ...started, gate };
}

/** Lets the job go on once the connection is live: what follows can only be pushed. */
async function readOpening(gate: { open(): void }, target: FollowTarget) {
  const states: string[] = [];
  const events: TidingsEvent[] = [];
  const onConnection = ({ state }: Connection) => {
    states.push(state);
    if (state === "live") gate.open();
  };
  for await (const event of follow({ ...target, onConnection })) events.push(event as TidingsEvent);
  return { states, events };
}

describe("following a job over an MCP client", () => {
  it("2026-07-28: listens with our filter from the start's cursor, and uses nothing else", async () => {
    const world = await setUp();
    const client = await connect(world, "2026");
    const { jobId, cursor, gate } = await startGated(world);
    const events: TidingsEvent[] = [];
    for await (const event of follow(gated, { source: mcpSource(client), jobId, after: cursor })) {
      events.push(event);
      if (event.type === "job.progress") gate.open();
    }
    expect(events).toEqual(await log(world, jobId));
    expect(events.at(-1)?.type).toBe("job.completed");
    expect(used(world)).toEqual(["subscriptions/listen"]);
  });

  it("2026-07-28: without a cursor it reads what happened and listens on", async () => {
    const world = await setUp();
    const client = await connect(world, "2026");
    const { jobId, gate } = await startGated(world);
    const { events, states } = await readOpening(gate, { source: mcpSource(client), jobId });
    expect(events).toEqual(await log(world, jobId));
    expect(states).toEqual(["polling", "live", "ended"]);
    expect(used(world)).toEqual(["tools/call", "subscriptions/listen"]);
  });

  it("2026-07-28: a cursor behind the ending ends the iteration, and a foreign job is not found", async () => {
    const world = await setUp();
    const client = await connect(world, "2026");
    const { jobId } = await world.tidings.start(quick, { steps: 2, lines: 0 });
    const all = follow({ source: mcpSource(client), jobId });
    for await (const _ of all);
    const behind = follow({ source: mcpSource(client), jobId, after: all.cursor as string });
    for await (const event of behind) throw new Error(event.type);
    for (const after of [{}, { after: all.cursor as string }]) {
      const unknown = follow({ source: mcpSource(client), jobId: "quick_nobody", ...after });
      await expect(unknown[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "JOB_NOT_FOUND" });
    }
    const bad = follow({ source: mcpSource(client), jobId, after: "never-issued" });
    await expect(bad[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "BAD_CURSOR" });
  });

  it.each(["2025", "v1"] as const)("a session (%s): catches up, then hears what it started", async (era) => {
    const world = await setUp();
    const client = await connect(world, era);
    const { gate, name } = addGate();
    const answer = (await client.callTool({ name: "start_gated", arguments: { gate: name } })) as {
      structuredContent: { jobId: string };
    };
    const { jobId } = answer.structuredContent;
    const heard: unknown[] = [];
    closing.push(async () => stop());
    const stop = tap(client.transport as object, (message) => heard.push(message));
    const { events, states } = await readOpening(gate, { source: mcpSource(client), jobId });
    expect(events).toEqual(await log(world, jobId));
    expect(states).toEqual(["polling", "live", "ended"]);
    // It came as a notification, and nothing was asked after that.
    expect(heard.at(-1)).toMatchObject({ method: "notifications/job/completed", params: { jobId } });
  });

  it("by polling alone, with either SDK", async () => {
    const world = await setUp();
    const { jobId, gate } = await startGated(world);
    gate.open();
    for (const era of ["2025", "2026", "v1"] as const) {
      const client = await connect(world, era);
      const events: TidingsEvent[] = [];
      for await (const event of follow({ source: pollSource(client, { waitSeconds: 5 }), jobId })) {
        events.push(event as TidingsEvent);
      }
      expect(events).toEqual(await log(world, jobId));
    }
    expect(used(world)).toEqual(["tools/call"]);
  });

  it("by server-sent events from the same server, with one cursor for all paths", async () => {
    const world = await setUp();
    const client = await connect(world, "2026");
    const { jobId, gate } = await startGated(world);
    const first = follow({ url: world.url, jobId });
    const events: TidingsEvent[] = [];
    for await (const event of first) {
      events.push(event as TidingsEvent);
      if (event.type === "job.progress") break;
    }
    gate.open();
    for await (const event of follow({ source: mcpSource(client), jobId, after: first.cursor as string })) {
      events.push(event as TidingsEvent);
    }
    expect(events).toEqual(await log(world, jobId));
  });

  it("tells of a snapshot by every path when the server no longer keeps the events", async () => {
    const world = await setUp();
    const { jobId, cursor } = await world.tidings.start(quick, { steps: 2, lines: 0 });
    for await (const _ of follow({ url: world.url, jobId }));
    await world.engine.prune({ keepEvents: 1 });
    const targets: FollowTarget[] = [
      { url: world.url, jobId },
      { url: world.url, jobId, after: cursor },
      { source: mcpSource(await connect(world, "2026")), jobId },
      { source: mcpSource(await connect(world, "2026")), jobId, after: cursor },
      { source: mcpSource(await connect(world, "2025")), jobId },
      { source: pollSource(await connect(world, "v1")), jobId },
    ];
    for (const target of targets) {
      const shown: string[] = [];
      const story = follow({ ...target, onSnapshot: ({ status }) => shown.push(status) });
      for await (const event of story) throw new Error(event.type);
      expect(shown).toEqual(["completed"]);
      expect(story.job).toMatchObject({ jobType: "quick", status: "completed", percentage: 100 });
    }
  });

  it("connects anew when it is given a way to", async () => {
    const world = await setUp();
    const { jobId, cursor, gate } = await startGated(world);
    const clients: (McpClient & { close?: () => Promise<void> })[] = [];
    const source = mcpSource(async () => {
      const client = await connect(world, "2026");
      clients.push(client);
      return client;
    });
    const events: TidingsEvent[] = [];
    for await (const event of follow({ source, jobId, after: cursor })) {
      events.push(event as TidingsEvent);
      if (event.type === "job.progress") {
        await clients[0]?.close?.();
        gate.open();
      }
    }
    expect(events).toEqual(await log(world, jobId));
    expect(clients.length).toBeGreaterThan(1);
  });
});

describe("hearing a transport's messages", () => {
  it("takes nothing from the client, and puts back what was there, in whatever order listeners leave", () => {
    const own: unknown[] = [];
    const heard: string[] = [];
    const onmessage = (message: unknown) => own.push(message);
    const transport = { onmessage };
    const stopA = tap(transport, (message) => heard.push(`a${message}`));
    const stopB = tap(transport, (message) => heard.push(`b${message}`));
    transport.onmessage(1);
    stopA();
    transport.onmessage(2);
    expect(own).toEqual([1, 2]);
    expect(heard).toEqual(["a1", "b1", "b2"]);
    stopB();
    expect(transport.onmessage).toBe(onmessage);
  });
});
