import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";
import { McpServer, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { createTidings, type Tidings } from "tidings";
import { createEventStore } from "tidings/mcp";
import { createManualClock } from "tidings/testing";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { systemClock } from "../../src/engine/system-clock.ts";
import { forward, toWebRequest } from "../../src/mcp/server/http-message.ts";
import { readEvents } from "./http-reader.ts";
import { createGate } from "./http-world.ts";

const GET_STREAM = "_GET_stream";
const say = (text: string): JSONRPCMessage => ({
  jsonrpc: "2.0",
  method: "notifications/said",
  params: { text },
});
const textOf = (message: JSONRPCMessage) => ("params" in message ? message.params?.text : undefined);

async function replay(store: EventStore, id: string) {
  const sent: { id: string; text: unknown }[] = [];
  const stream = await store.replayEventsAfter(id, {
    send: async (id, message) => void sent.push({ id, text: textOf(message) }),
  });
  return { stream, sent };
}

describe.each(["memory:", "sqlite:"])("an event store on %s", (kind) => {
  let tidings: Tidings;
  let folder: string;
  let where: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "tidings-events-"));
    where = kind === "memory:" ? kind : `sqlite:${join(folder, "jobs.db")}`;
    tidings = await createTidings({ store: where, jobs: [] });
  });
  afterEach(async () => {
    await tidings.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("replays what the same stream was told since, in order, also when nobody awaited the storing", async () => {
    const store = createEventStore(tidings, { owner: "ann", sessionId: "s" });
    const storing = Array.from({ length: 250 }, (_, at) =>
      store.storeEvent(at % 2 === 0 ? GET_STREAM : "other", say(String(at))),
    );
    const ids = await Promise.all(storing);
    expect(new Set(ids).size).toBe(250);
    for (const id of ids) expect(id).toMatch(/^[\x21-\x7e]+$/);
    const { stream, sent } = await replay(store, ids[10] ?? "");
    expect(stream).toBe(GET_STREAM);
    const even = Array.from({ length: 250 }, (_, at) => at).filter((at) => at % 2 === 0 && at > 10);
    expect(sent).toEqual(even.map((at) => ({ id: ids[at], text: String(at) })));
  });

  it("a position without a message is resumed from, and never replayed", async () => {
    const store = createEventStore(tidings, { owner: "ann", sessionId: "s" });
    const primed = await store.storeEvent("post", {} as JSONRPCMessage);
    await store.storeEvent("post", say("a"));
    await store.storeEvent("post", {} as JSONRPCMessage);
    await store.storeEvent("post", say("b"));
    expect((await replay(store, primed)).sent.map(({ text }) => text)).toEqual(["a", "b"]);
  });

  it("FC-10, security 4: gives nothing for the id of another session or owner, or for one that was made up", async () => {
    const mine = createEventStore(tidings, { owner: "ann", sessionId: "s" });
    const id = await mine.storeEvent(GET_STREAM, say("secret"));
    await mine.storeEvent(GET_STREAM, say("secret too"));
    const flipped = Array.from(
      id,
      (character, at) => id.slice(0, at) + (character === "A" ? "B" : "A") + id.slice(at + 1),
    );
    const others = [
      createEventStore(tidings, { owner: "ann", sessionId: "t" }),
      createEventStore(tidings, { owner: "bob", sessionId: "s" }),
    ];
    for (const other of others) await other.storeEvent(GET_STREAM, say("theirs"));
    const tries: [EventStore, string][] = [
      ...others.map((other): [EventStore, string] => [other, id]),
      ...[...flipped, "", "0", "1", "__proto__", `${id}A`, "\0"].map((made): [EventStore, string] => [
        mine,
        made,
      ]),
    ];
    for (const [store, wanted] of tries) {
      expect(await store.getStreamIdForEventId?.(wanted)).toBeUndefined();
      await expect(replay(store, wanted)).rejects.toMatchObject({ code: "BAD_CURSOR" });
    }
  });

  it("what is told while a replay runs waits behind it: nothing falls between the two", async () => {
    const store = createEventStore(tidings, { owner: "ann", sessionId: "s" });
    const id = await store.storeEvent(GET_STREAM, say("0"));
    await store.storeEvent(GET_STREAM, say("1"));
    let attached = false;
    let meanwhile: Promise<boolean> | undefined;
    const sent: unknown[] = [];
    await store.replayEventsAfter(id, {
      async send(_, message) {
        sent.push(textOf(message));
        meanwhile ??= store.storeEvent(GET_STREAM, say("2")).then(() => attached);
      },
    });
    attached = true;
    expect(sent).toEqual(["1"]);
    expect(await meanwhile).toBe(true);
  });

  it("a message is kept for its time and not longer, and its number never comes again", async () => {
    const clock = createManualClock();
    const timed = await createTidings({ store: "memory:", jobs: [], clock });
    onTestFinished(() => timed.close());
    const store = () => createEventStore(timed, { owner: "ann", sessionId: "s", retentionMs: 60_000, clock });
    const first = store();
    const old = [
      await first.storeEvent(GET_STREAM, say("old")),
      await first.storeEvent(GET_STREAM, say("old too")),
    ];
    expect((await replay(first, old[0] ?? "")).sent).toHaveLength(1);
    clock.advance(61_000);
    await timed.prune({});
    for (const again of [first, store()]) {
      await again.storeEvent(GET_STREAM, say("new"));
      await expect(replay(again, old[0] ?? "")).rejects.toMatchObject({ code: "BAD_CURSOR" });
      await expect(replay(again, old[1] ?? "")).rejects.toMatchObject({ code: "BAD_CURSOR" });
    }
  });

  it.runIf(kind === "sqlite:")("a restart loses nothing, and numbers go on", async () => {
    const id = await createEventStore(tidings, { owner: "ann", sessionId: "s" }).storeEvent("a", say("1"));
    await createEventStore(tidings, { owner: "ann", sessionId: "s" }).storeEvent("a", say("2"));
    await tidings.close();
    tidings = await createTidings({ store: where, jobs: [] });
    const store = createEventStore(tidings, { owner: "ann", sessionId: "s" });
    await store.storeEvent("a", say("3"));
    expect((await replay(store, id)).sent.map(({ text }) => text)).toEqual(["2", "3"]);
  });

  it("a failure of the store reaches whoever stores", async () => {
    const store = createEventStore(tidings, { owner: "ann", sessionId: "s" });
    await tidings.close();
    await expect(store.storeEvent("a", say("1"))).rejects.toMatchObject({ code: "STORE_CLOSED" });
  });
});

describe("the SDK's own transport with an event store", () => {
  /** One server of the SDK per session, as its documentation has it. */
  async function serve(tidings: Tidings) {
    const gate = createGate();
    const transports = new Map<
      string,
      { transport: WebStandardStreamableHTTPServerTransport; server: McpServer }
    >();
    const begin = async () => {
      const sessionId = randomUUID();
      const eventStore = createEventStore(tidings, { owner: "ann", sessionId });
      const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: () => sessionId,
        eventStore,
        retryInterval: 10,
      });
      const server = new McpServer({ name: "plain", version: "1.0.0" });
      server.registerTool("slow", { inputSchema: z.object({}) }, async (_, { mcpReq, http }) => {
        await mcpReq.notify({ method: "notifications/said", params: { text: "before" } });
        http?.closeSSE?.();
        await gate.opened;
        await mcpReq.notify({ method: "notifications/said", params: { text: "after" } });
        return { content: [{ type: "text", text: "done" }] };
      });
      await server.connect(transport);
      transports.set(sessionId, { transport, server });
      return transport;
    };
    const http = createServer(async (req, res) => {
      const chunks: Buffer[] = [];
      for await (const chunk of req) chunks.push(chunk as Buffer);
      const parsedBody = chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString());
      const transport = transports.get(String(req.headers["mcp-session-id"]))?.transport ?? (await begin());
      const request = toWebRequest(req, req.url ?? "/", new AbortController().signal);
      await forward(
        await transport.handleRequest(request, parsedBody === undefined ? {} : { parsedBody }),
        res,
        { clock: systemClock, stallMs: 60_000 },
      );
    });
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    onTestFinished(async () => {
      for (const { server } of transports.values()) await server.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    });
    const url = new URL(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`);
    return { url, gate, transports };
  }

  it("lets a stock client resume a call whose stream was closed", async () => {
    const tidings = await createTidings({ store: "memory:", jobs: [] });
    onTestFinished(() => tidings.close());
    const { url, gate } = await serve(tidings);
    const client = new Client({ name: "stock", version: "1.0.0" });
    const heard: unknown[] = [];
    client.fallbackNotificationHandler = async ({ params }) => {
      heard.push(params?.text);
      if (params?.text === "before") gate.open();
    };
    await client.connect(new StreamableHTTPClientTransport(url));
    const { content } = await client.callTool({ name: "slow", arguments: {} });
    expect(content).toEqual([{ type: "text", text: "done" }]);
    expect(heard).toEqual(["before", "after"]);
    await client.close();
  });

  it("a GET stream is resumed while the dead one still counts as alive, and a bad id is 400", async () => {
    const tidings = await createTidings({ store: "memory:", jobs: [] });
    onTestFinished(() => tidings.close());
    const { url, transports } = await serve(tidings);
    const client = new Client({ name: "stock", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(url));
    const [session = "", other] = [...transports.keys()];
    expect(other).toBeUndefined();
    const { server } = transports.get(session) ?? {};
    const get = (id: string) =>
      fetch(url, {
        headers: { Accept: "text/event-stream", "Mcp-Session-Id": session, "Last-Event-ID": id },
      });
    // The client holds the GET stream of the session meanwhile.
    const store = createEventStore(tidings, { owner: "ann", sessionId: session });
    const id = await store.storeEvent(GET_STREAM, say("0"));
    await server?.server.notification({ method: "notifications/said", params: { text: "1" } });
    const resumed = readEvents(await get(id));
    expect(resumed.status).toBe(200);
    await server?.server.notification({ method: "notifications/said", params: { text: "2" } });
    const texts = [await resumed.next(), await resumed.next()].map(
      (frame) => JSON.parse(frame?.data ?? "").params.text,
    );
    expect(texts).toEqual(["1", "2"]);
    resumed.close();
    const bad = await get("0");
    expect(bad.status).toBe(400);
    await bad.text();
    await client.close();
  });
});
