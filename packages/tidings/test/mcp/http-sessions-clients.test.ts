import { mkdtemp, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { callTool, initialize, post } from "./http-mcp.ts";
import { eventOf, isEnding } from "./http-reader.ts";
import { createGate, gates } from "./http-world.ts";
import { PATIENTLY } from "./support.ts";
import type { TalkWorld } from "./talk-world.ts";
import { createTalkWorld, gateOf, get } from "./talk-world.ts";

interface Stock {
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

const STOCK = {
  "SDK v2": async (url: string, hear: (message: unknown) => Promise<void>): Promise<Stock> => {
    const client = new ClientV2({ name: "stock", version: "1.0.0" });
    client.fallbackNotificationHandler = hear;
    await client.connect(new TransportV2(new URL(`${url}/mcp`)));
    return client;
  },
  "SDK v1": async (url: string, hear: (message: unknown) => Promise<void>): Promise<Stock> => {
    const client = new ClientV1({ name: "stock", version: "1.0.0" });
    client.fallbackNotificationHandler = hear;
    await client.connect(new TransportV1(new URL(`${url}/mcp`)));
    return client;
  },
};

describe.each(Object.entries(STOCK))("the stock client of %s", (_, connect) => {
  let world: TalkWorld;
  afterEach(async () => {
    expect(world.errors).toEqual([]);
    await world.close();
  });

  it("is given the rest of a call, and of its session's events, after every connection broke", async () => {
    world = await createTalkWorld();
    const sockets = new Set<Socket>();
    world.server.on("connection", (socket) => sockets.add(socket));
    const heard: { method: string; params?: { text?: string; jobId?: string } }[] = [];
    const client = await connect(world.url, async (message) => void heard.push(message as never));
    const texts = () => heard.flatMap(({ params }) => params?.text ?? []);
    gates.set("job", createGate());
    await client.callTool({ name: "start_gated", arguments: { gate: "job" } });
    await expect.poll(() => heard.length, PATIENTLY).toBeGreaterThan(1);
    const gate = gateOf("call");
    const calling = client.callTool({ name: "talk", arguments: { name: "call", before: 2, after: 2 } });
    await expect.poll(texts, PATIENTLY).toEqual(["before 1", "before 2"]);
    for (const socket of sockets) socket.destroy();
    gate.open();
    gates.get("job")?.open();
    expect(await calling).toMatchObject({ content: [{ text: "call" }] });
    expect(texts()).toEqual(["before 1", "before 2", "after 1", "after 2"]);
    const events = () =>
      heard.filter(({ params }) => params?.jobId !== undefined).map((one) => eventOf(one).event);
    await expect.poll(() => events().some(({ type }) => isEnding(type)), PATIENTLY).toBe(true);
    const seqs = events().map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.map((_, at) => at + 1));
    await client.close();
  });

  it("meets a restart: the session is gone, and after a new initialize the job is read by its id", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tidings-restart-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const store = `sqlite:${join(folder, "jobs.db")}`;
    world = await createTalkWorld({ store });
    gates.set("restart", createGate());
    const before = await connect(world.url, async () => {});
    const started = (await before.callTool({ name: "start_gated", arguments: { gate: "restart" } })) as {
      structuredContent: { jobId: string };
    };
    const { jobId } = started.structuredContent;
    const session = await initialize(world.url);
    const own = await get(world, session);
    const position = (await own.next())?.id;
    own.close();
    await before.close();
    await world.close();

    world = await createTalkWorld({ store });
    expect((await get(world, session, position)).status).toBe(404);
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    expect((await post(world.url, ping, { "Mcp-Session-Id": session })).status).toBe(404);
    gates.get("restart")?.open();
    const after = await connect(world.url, async () => {});
    const read = async () => {
      const answer = await after.callTool({ name: "get_job_events", arguments: { jobId, waitSeconds: 1 } });
      return (answer as { structuredContent: { status: string } }).structuredContent;
    };
    await expect.poll(async () => (await read()).status, PATIENTLY).toBe("completed");
    expect(await read()).toMatchObject({
      events: expect.arrayContaining([expect.objectContaining({ seq: 1 })]),
    });
    await after.close();
  });
});

it("FC-35 (d): the stock client of SDK v2 asks once for more of a call that it cancelled, and hears of no failure", async () => {
  const world = await createTalkWorld();
  onTestFinished(() => world.close());
  const resumptions: number[] = [];
  world.server.on("request", (req, res) => {
    if (req.headers["last-event-id"] !== undefined) res.once("close", () => resumptions.push(res.statusCode));
  });
  let attempts = 0;
  const transport = new TransportV2(new URL(`${world.url}/mcp`), {
    reconnectionScheduler(reconnect) {
      attempts++;
      setImmediate(reconnect);
    },
  });
  const client = new ClientV2({ name: "stock", version: "1.0.0" });
  const errors: Error[] = [];
  const heard: unknown[] = [];
  client.onerror = (error) => errors.push(error);
  client.fallbackNotificationHandler = async (message) => void heard.push(message);
  await client.connect(transport);
  gateOf("cancelled by its client");
  const stop = new AbortController();
  const calling = client.callTool(
    { name: "talk", arguments: { name: "cancelled by its client", before: 1 } },
    { signal: stop.signal },
  );
  await expect.poll(() => heard.length, PATIENTLY).toBe(1);
  stop.abort();
  await expect(calling).rejects.toThrow();
  await expect.poll(() => resumptions, PATIENTLY).toEqual([204]);
  await client.callTool({ name: "talk", arguments: { name: "another" } });
  expect([attempts, resumptions, errors]).toEqual([1, [204], []]);
  await client.close();
});

describe("FC-23: 50 sessions of 50 users", () => {
  it("each hears of its own job only, with equal request ids and connections that come and go", async () => {
    const USERS = 50;
    const world = await createTalkWorld();
    const users = await Promise.all(
      Array.from({ length: USERS }, async (_, at) => {
        const headers = { Authorization: `Bearer user${at}` };
        const session = await initialize(world.url, headers);
        gates.set(`of-user${at}`, createGate());
        const answer = await callTool(world.url, session, "start_gated", { gate: `of-user${at}` }, headers);
        const stream = await get(world, session, undefined, headers);
        return { at, headers, session, stream, jobId: String(answer.jobId), raw: "" };
      }),
    );
    for (const user of users) {
      // Every third connection breaks and comes again; every fifth session gets company of its own owner.
      if (user.at % 3 === 0) {
        const position = (await user.stream.next())?.id;
        user.raw += user.stream.raw;
        user.stream.close();
        user.stream = await get(world, user.session, position, user.headers);
      }
      if (user.at % 5 === 0) await initialize(world.url, user.headers);
      gates.get(`of-user${user.at}`)?.open();
    }
    for (const user of users) {
      const seqs = new Set<number | undefined>();
      await user.stream.until(({ data }) => {
        if (data === "") return false;
        const { event } = eventOf(JSON.parse(data));
        seqs.add(event.seq);
        return isEnding(event.type);
      });
      user.raw += user.stream.raw;
      const story = await world.tidings.read({ owner: `user${user.at}`, jobIds: [user.jobId] });
      const told = new Set(user.raw.match(/"seq":\d+/g)?.map((text) => Number(text.slice(6))));
      expect(told).toEqual(new Set(story.events.map(({ event }) => event.seq)));
      for (const other of users) {
        expect(user.raw.includes(other.jobId)).toBe(other === user);
      }
      const next = users[(user.at + 1) % USERS];
      const stolen = await get(world, user.session, undefined, next?.headers);
      expect(stolen.status).toBe(404);
      user.stream.close();
    }
    expect(world.errors).toEqual([]);
    await world.close();
  });
});
