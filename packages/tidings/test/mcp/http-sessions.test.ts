import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { Message } from "./http-mcp.ts";
import { callTool, initialize, MODERN, openStream, post } from "./http-mcp.ts";
import { eventOf, isEnding } from "./http-reader.ts";
import type { World } from "./http-world.ts";
import { createGate, createWorld, gates, quick } from "./http-world.ts";

const endsStory = (message: Message) => isEnding(eventOf(message).event.type);

describe("sessions of 2025-11-25", () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld();
  });
  afterAll(() => world.close());
  afterEach(() => {
    expect(world.errors).toEqual([]);
  });

  async function logOf(jobId: string) {
    return (await world.tidings.read({ owner: "local", jobIds: [jobId], limit: 1000 })).events;
  }

  /** Collects what a stock client hears, until a story ends. */
  function createEar() {
    const heard: Message[] = [];
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const hear = async (message: unknown) => {
      heard.push(message as Message);
      if (endsStory(message as Message)) end();
    };
    return { heard, ended, hear };
  }

  const STOCK = {
    "SDK v2": async (hear: (message: unknown) => Promise<void>) => {
      const client = new ClientV2({ name: "stock", version: "1.0.0" });
      client.fallbackNotificationHandler = hear;
      client.setNotificationHandler("notifications/resources/updated", hear);
      await client.connect(new TransportV2(new URL(`${world.url}/mcp`)));
      return client;
    },
    "SDK v1": async (hear: (message: unknown) => Promise<void>) => {
      const client = new ClientV1({ name: "stock", version: "1.0.0" });
      client.fallbackNotificationHandler = hear;
      client.setNotificationHandler(ResourceUpdatedNotificationSchema, hear);
      await client.connect(new TransportV1(new URL(`${world.url}/mcp`)));
      return client;
    },
  };

  describe.each(Object.entries(STOCK))("the stock client of %s", (_, connect) => {
    it("hears the story of a job it started on the GET stream, equal to the log", async () => {
      const { heard, ended, hear } = createEar();
      world.seen.length = 0;
      const client = await connect(hear);
      const started = await client.callTool({ name: "start_quick", arguments: { steps: 3 } });
      const { jobId } = started.structuredContent as { jobId: string };
      await ended;
      const told = heard
        .map((message) => eventOf(message))
        .sort((a, b) => (a.event.seq ?? 0) - (b.event.seq ?? 0));
      expect(told.map(({ event, cursor }) => ({ event, cursor }))).toEqual(await logOf(jobId));
      // No other path: the session's POSTs and its one GET stream.
      expect(new Set(world.seen.map(({ path }) => path))).toEqual(new Set(["/mcp"]));
      expect(world.seen.filter(({ method }) => method === "GET")).toHaveLength(1);
      expect(world.seen.every(({ rpc }) => rpc === undefined)).toBe(true);
      await client.close();
    });

    it("hears updates of a subscribed job://{jobId} with the event in _meta", async () => {
      const { heard, ended, hear } = createEar();
      const client = await connect(hear);
      gates.set("subscribed", createGate());
      const other = await initialize(world.url);
      const { jobId } = await callTool(world.url, other, "start_gated", { gate: "subscribed" });
      const uri = `job://${jobId}`;
      await client.subscribeResource({ uri });
      gates.get("subscribed")?.open();
      await ended;
      expect(
        heard.every(
          ({ method, params }) => method === "notifications/resources/updated" && params?.uri === uri,
        ),
      ).toBe(true);
      expect(eventOf(heard.at(-1)).event.type).toBe("job.completed");
      await client.close();
    });
  });

  it("events wait for the GET stream: nothing of a job that was started before it is lost", async () => {
    const session = await initialize(world.url);
    const { jobId } = await callTool(world.url, session, "start_quick", { steps: 2 });
    for await (const item of world.tidings.tail({
      owner: "local",
      jobIds: [String(jobId)],
      signal: new AbortController().signal,
    })) {
      if (item.kind === "event" && isEnding(item.event.type)) break;
    }
    const stream = await openStream(world.url, session);
    const told = (await stream.until(endsStory)).map((message) => eventOf(message).cursor);
    expect(told).toEqual((await logOf(String(jobId))).map(({ cursor }) => cursor));
    stream.reader.close();
  });

  it("a session without a stream keeps one reader, however many jobs it starts, and none of them is lost", async () => {
    const JOBS = 300;
    const crowded = await createWorld();
    let watchers = 0;
    const { watch } = crowded.engine;
    crowded.engine.watch = (owner, wake) => {
      const stop = watch.call(crowded.engine, owner, wake);
      if (owner === undefined) return stop;
      watchers++;
      return () => {
        watchers--;
        stop();
      };
    };
    const session = await initialize(crowded.url);
    for (let job = 0; job < JOBS; job++) await callTool(crowded.url, session, "start_quick", { steps: 1 });
    expect(watchers).toBe(1);
    const stream = await openStream(crowded.url, session);
    const stories = new Map<string, number[]>();
    for (let endings = 0; endings < JOBS; ) {
      const { event } = eventOf(await stream.next());
      const seqs = stories.get(event.jobId ?? "") ?? [];
      stories.set(event.jobId ?? "", [...seqs, event.seq ?? 0]);
      if (isEnding(event.type)) endings++;
    }
    expect(stories.size).toBe(JOBS);
    for (const seqs of stories.values()) expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    await expect.poll(() => watchers).toBe(0);
    expect(crowded.errors).toEqual([]);
    stream.reader.close();
    await crowded.close();
  });

  it("tells how a job stands instead of events that were removed while it waited for the stream", async () => {
    const gappy = await createWorld();
    const session = await initialize(gappy.url);
    const { jobId } = await callTool(gappy.url, session, "start_quick", { steps: 2 });
    await expect.poll(async () => (await gappy.tidings.get("local", String(jobId))).status).toBe("completed");
    // The first event of another job is on its way already; this one is read when the stream has taken it.
    const { jobId: second } = await callTool(gappy.url, session, "start_quick", { steps: 2 });
    await expect
      .poll(async () => (await gappy.tidings.get("local", String(second))).status)
      .toBe("completed");
    await gappy.engine.prune({ keepEvents: 1 });
    const stream = await openStream(gappy.url, session);
    const told = await stream.until((message) => message.method === "notifications/dev.tidings/gap");
    expect(told.at(-1)?.params?.snapshots).toEqual([await gappy.tidings.get("local", String(second))]);
    stream.reader.close();
    await gappy.close();
  });

  it("a second GET takes the place of the first, dead or alive", async () => {
    const session = await initialize(world.url);
    const first = await openStream(world.url, session);
    const second = await openStream(world.url, session);
    expect(await first.next()).toBeUndefined();
    await callTool(world.url, session, "start_quick", { steps: 1 });
    expect((await second.until(endsStory)).length).toBeGreaterThan(0);
    second.reader.close();
  });

  it("each message goes to the session it belongs to", async () => {
    const sessions = await Promise.all([1, 2, 3].map(() => initialize(world.url)));
    const streams = await Promise.all(sessions.map((session) => openStream(world.url, session)));
    const jobs = await Promise.all(
      sessions.map(
        async (session) => (await callTool(world.url, session, "start_quick", { steps: 2 })).jobId,
      ),
    );
    for (const [index, stream] of streams.entries()) {
      const told = await stream.until(endsStory);
      expect(new Set(told.map((message) => eventOf(message).event.jobId))).toEqual(new Set([jobs[index]]));
      stream.reader.close();
    }
  });

  it("an id is 128 random bits, and unknown, foreign and ended sessions are one and the same 404", async () => {
    const session = await initialize(world.url, { Authorization: "Bearer ann" });
    expect(session).toMatch(/^[0-9A-Za-z_-]{22,}$/);
    const ended = await initialize(world.url);
    const deleted = await fetch(`${world.url}/mcp`, {
      method: "DELETE",
      headers: { "Mcp-Session-Id": ended },
    });
    expect(deleted.status).toBe(200);
    const answers = new Set<string>();
    for (const id of [session, ended, "unknown", "__proto__"]) {
      const listing = await post(
        world.url,
        { jsonrpc: "2.0", id: 1, method: "tools/list" },
        { "Mcp-Session-Id": id },
      );
      answers.add(`${listing.status} ${await listing.text()}`);
      const stream = await fetch(`${world.url}/mcp`, {
        headers: { Accept: "text/event-stream", "Mcp-Session-Id": id },
      });
      expect(stream.status).toBe(404);
      const end = await fetch(`${world.url}/mcp`, { method: "DELETE", headers: { "Mcp-Session-Id": id } });
      expect(end.status).toBe(404);
    }
    expect([...answers]).toEqual([
      '404 {"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":1}',
    ]);
    const own = await post(
      world.url,
      { jsonrpc: "2.0", id: 1, method: "tools/list" },
      { "Mcp-Session-Id": session, Authorization: "Bearer ann" },
    );
    expect(own.status).toBe(200);
    await own.text();
  });

  it("a request without a session is told to initialize", async () => {
    const response = await post(world.url, { jsonrpc: "2.0", id: 4, method: "tools/list" });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ id: 4, error: { code: -32000 } });
    const get = await fetch(`${world.url}/mcp`, { headers: { Accept: "text/event-stream" } });
    expect(get.status).toBe(400);
  });

  it("GET and DELETE of 2026-07-28, which has no sessions, are 405", async () => {
    for (const method of ["GET", "DELETE"]) {
      const response = await fetch(`${world.url}/mcp`, {
        method,
        headers: { "MCP-Protocol-Version": MODERN },
      });
      expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
    }
  });

  it("GET insists on an event stream and a known protocol version", async () => {
    const session = await initialize(world.url);
    const html = await fetch(`${world.url}/mcp`, {
      headers: { Accept: "text/html", "Mcp-Session-Id": session },
    });
    expect(html.status).toBe(406);
    const old = await fetch(`${world.url}/mcp`, {
      headers: {
        Accept: "text/event-stream",
        "Mcp-Session-Id": session,
        "MCP-Protocol-Version": "1999-01-01",
      },
    });
    expect(old.status).toBe(400);
  });

  it("a session that rests is closed, one with a GET stream is not", async () => {
    const clock = createManualClock();
    const resting = await createWorld({ clock, sessionIdleMs: 60_000 });
    const [idle, busy] = [await initialize(resting.url), await initialize(resting.url)];
    const stream = await openStream(resting.url, busy);
    clock.advance(61_000);
    const status = async (session: string) => {
      const answer = await post(
        resting.url,
        { jsonrpc: "2.0", id: 1, method: "ping" },
        { "Mcp-Session-Id": session },
      );
      await answer.text();
      return answer.status;
    };
    expect([await status(idle), await status(busy)]).toEqual([404, 200]);
    stream.reader.close();
    await resting.close();
  });

  it("FC-17 (b): sessions that never say goodbye end when they have rested, however many they are", async () => {
    const SESSIONS = 300;
    const clock = createManualClock();
    const crowded = await createWorld({ clock, sessionIdleMs: 60_000, maxSessions: SESSIONS });
    for (let at = 0; at < SESSIONS; at++) await initialize(crowded.url);
    const bob = { Authorization: "Bearer bob" };
    await expect(initialize(crowded.url, bob)).rejects.toThrow("HTTP 503");
    clock.advance(61_000);
    // There is room for as many again, and nothing of theirs had to make it.
    const sessions: string[] = [];
    for (let at = 0; at < SESSIONS; at++) sessions.push(await initialize(crowded.url, bob));
    for (const id of sessions) {
      const ping = await post(
        crowded.url,
        { jsonrpc: "2.0", id: 1, method: "ping" },
        { ...bob, "Mcp-Session-Id": id },
      );
      expect(ping.status).toBe(200);
      await ping.text();
    }
    expect(crowded.errors).toEqual([]);
    await crowded.close();
  });

  it("a session that was deleted while its stream was open is forgotten at once", async () => {
    const IDLE_MS = 60_000;
    const clock = createManualClock();
    let armed = 0;
    const after: typeof clock.after = (ms, call) => {
      const stop = clock.after(ms, call);
      if (ms !== IDLE_MS) return stop;
      armed++;
      let isOver = false;
      return () => {
        if (!isOver) armed--;
        isOver = true;
        stop();
      };
    };
    const world = await createWorld({ clock: { ...clock, after }, sessionIdleMs: IDLE_MS });
    const session = await initialize(world.url);
    const stream = await openStream(world.url, session);
    expect(armed).toBe(1);
    const deleted = await fetch(`${world.url}/mcp`, {
      method: "DELETE",
      headers: { "Mcp-Session-Id": session },
    });
    await deleted.text();
    expect(await stream.next()).toBeUndefined();
    await world.handler.close();
    expect(armed).toBe(0);
    await world.close();
  });

  it("a full house closes the owner's own oldest session, never another owner's", async () => {
    const small = await createWorld({ maxSessions: 2 });
    const bob = { Authorization: "Bearer bob" };
    const first = await initialize(small.url);
    const second = await initialize(small.url);
    const refused = await initialize(small.url, bob).catch((error: Error) => error.message);
    expect(refused).toBe("No session: HTTP 503");
    const third = await initialize(small.url);
    const status = async (session: string) => {
      const answer = await post(
        small.url,
        { jsonrpc: "2.0", id: 1, method: "ping" },
        { "Mcp-Session-Id": session },
      );
      await answer.text();
      return answer.status;
    };
    expect([await status(first), await status(second), await status(third)]).toEqual([404, 200, 200]);
    await small.close();
  });

  it("a stop ends the GET streams, and jobs go on", async () => {
    const stopping = await createWorld();
    const session = await initialize(stopping.url);
    const stream = await openStream(stopping.url, session);
    await stopping.handler.close();
    expect(await stream.next()).toBeUndefined();
    const { jobId } = await stopping.tidings.start(quick, { steps: 1 });
    expect(await stopping.tidings.get("local", jobId)).toMatchObject({ jobId });
    await stopping.close();
  });

  it("an initialize that fails leaves no session behind", async () => {
    const small = await createWorld({ maxSessions: 1 });
    for (const headers of [{ Accept: "text/html" }, { Accept: "application/json" }]) {
      const response = await post(
        small.url,
        {
          jsonrpc: "2.0",
          id: 1,
          method: "initialize",
          params: {
            protocolVersion: "2025-11-25",
            capabilities: {},
            clientInfo: { name: "x", version: "1" },
          },
        },
        headers,
      );
      expect(response.status).toBe(406);
    }
    expect(await initialize(small.url)).toMatch(/./);
    await small.close();
  });
});
