import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { ServerEventBus } from "@modelcontextprotocol/server";
import { InMemoryServerEventBus } from "@modelcontextprotocol/server";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { Tidings } from "../../src/runtime/tidings.ts";
import type { Message } from "./http-mcp.ts";
import { ENVELOPE, listen, MODERN, modern, post } from "./http-mcp.ts";
import { eventOf, isEnding } from "./http-reader.ts";
import type { World } from "./http-world.ts";
import { createGate, createWorld, gated, gates, quick } from "./http-world.ts";

const JOBS = "dev.tidings/jobs";
const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";

const endsStory = (message: Message) => isEnding(eventOf(message).event.type);

describe("subscriptions/listen of 2026-07-28", () => {
  let world: World;
  const bus = new InMemoryServerEventBus();
  beforeAll(async () => {
    world = await createWorld({ bus });
  });
  afterAll(() => world.close());
  afterEach(() => {
    expect(world.errors).toEqual([]);
  });

  async function logOf(jobId: string, owner = "local") {
    return (await world.tidings.read({ owner, jobIds: [jobId], limit: 1000 })).events;
  }

  async function waitForEnd(jobId: string, owner = "local"): Promise<void> {
    for await (const item of world.tidings.tail({
      owner,
      jobIds: [jobId],
      signal: new AbortController().signal,
    })) {
      if (item.kind === "event" && isEnding(item.event.type)) return;
    }
  }

  describe("with the stock client", () => {
    async function connect(): Promise<{ client: Client; heard: Message[]; ended: Promise<void> }> {
      const client = new Client(
        { name: "stock", version: "1.0.0" },
        { versionNegotiation: { mode: { pin: MODERN } } },
      );
      const heard: Message[] = [];
      let end = () => {};
      const ended = new Promise<void>((resolve) => {
        end = resolve;
      });
      const hear = (message: unknown) => {
        heard.push(message as Message);
        if (endsStory(message as Message)) end();
      };
      client.fallbackNotificationHandler = async (message) => hear(message);
      client.setNotificationHandler("notifications/resources/updated", hear);
      await client.connect(new StreamableHTTPClientTransport(new URL(`${world.url}/mcp`)));
      return { client, heard, ended };
    }

    it("resource updates of job://{jobId} tell the story from now on", async () => {
      gates.set("stock", createGate());
      const { client, heard, ended } = await connect();
      const started = await client.callTool({ name: "start_gated", arguments: { gate: "stock" } });
      const { jobId } = started.structuredContent as { jobId: string };
      const uri = `job://${jobId}`;
      const subscription = await client.listen({ resourceSubscriptions: [uri, "job://unknown"] });
      expect(subscription.honoredFilter).toEqual({ resourceSubscriptions: [uri] });
      world.seen.length = 0;
      gates.get("stock")?.open();
      await ended;
      expect(heard.every(({ method }) => method === "notifications/resources/updated")).toBe(true);
      expect(heard.every(({ params }) => params?.uri === uri)).toBe(true);
      const told = heard.map((message) => eventOf(message));
      expect(told.map(({ event, cursor }) => ({ event, cursor }))).toEqual(
        (await logOf(jobId)).slice(-told.length),
      );
      expect(world.seen).toEqual([]);
      await client.close();
    });

    it("our own filter tells every event from job.created on, equal to the log", async () => {
      const { client, heard, ended } = await connect();
      await client.listen({ [JOBS]: {} } as never);
      const started = await client.callTool({ name: "start_quick", arguments: { steps: 3, note: "hello" } });
      const { jobId } = started.structuredContent as { jobId: string };
      world.seen.length = 0;
      await ended;
      const told = heard
        .map((message) => eventOf(message))
        .sort((a, b) => (a.event.seq ?? 0) - (b.event.seq ?? 0));
      expect(told.map(({ event, cursor }) => ({ event, cursor }))).toEqual(await logOf(jobId));
      expect(world.seen).toEqual([]);
      await client.close();
    });

    it("a bad cursor rejects the listen with -32602 and its code", async () => {
      const { client } = await connect();
      await expect(client.listen({ [JOBS]: { after: "made-up" } } as never)).rejects.toMatchObject({
        code: -32602,
        data: { code: "BAD_CURSOR", retryable: false },
      });
      await client.close();
    });

    it("changes of lists and resources from the program's own bus arrive", async () => {
      const { client } = await connect();
      const heard: string[] = [];
      const both = new Promise<void>((resolve) => {
        const hear = (name: string) => {
          heard.push(name);
          if (heard.length === 2) resolve();
        };
        client.setNotificationHandler("notifications/tools/list_changed", () => hear("tools"));
        client.setNotificationHandler("notifications/resources/updated", ({ params }) => hear(params.uri));
      });
      const { honoredFilter } = await client.listen({
        toolsListChanged: true,
        promptsListChanged: true,
        resourceSubscriptions: ["file:///a"],
      });
      // The server has no prompts, so it cannot promise to tell of them.
      expect(honoredFilter).toEqual({ toolsListChanged: true, resourceSubscriptions: ["file:///a"] });
      bus.publish({ kind: "prompts_list_changed" });
      bus.publish({ kind: "resource_updated", uri: "file:///b" });
      bus.publish({ kind: "tools_list_changed" });
      bus.publish({ kind: "resource_updated", uri: "file:///a" });
      await both;
      expect(heard).toEqual(["tools", "file:///a"]);
      await client.close();
    });
  });

  it.each(["listen:1", 7, 0, ""])(
    "every message carries the request's id %j, in its own type",
    async (id) => {
      const listening = await listen(world.url, { [JOBS]: {} }, { id });
      const { jobId } = await world.tidings.start(quick, { steps: 1 });
      const acknowledged = await listening.next();
      expect(acknowledged).toEqual({
        jsonrpc: "2.0",
        method: "notifications/subscriptions/acknowledged",
        params: { notifications: { [JOBS]: {} }, _meta: { [SUBSCRIPTION]: id } },
      });
      const messages = await listening.until(endsStory);
      expect(messages.map(({ params }) => params?._meta?.[SUBSCRIPTION])).toEqual(messages.map(() => id));
      expect(messages.map((message) => eventOf(message).event)).toEqual(
        (await logOf(jobId)).map(({ event }) => event),
      );
      listening.reader.close();
    },
  );

  it("replays what came after a cursor, whichever path the cursor came from", async () => {
    const { jobId, cursor } = await world.tidings.start(quick, { steps: 2 });
    await waitForEnd(jobId);
    const log = await logOf(jobId);
    for (const after of [cursor, ...log.slice(0, -1).map((delivery) => delivery.cursor)]) {
      const listening = await listen(world.url, { [JOBS]: { jobIds: [jobId], after } });
      await listening.next();
      const told = (await listening.until(endsStory)).map((message) => eventOf(message).cursor);
      const from = log.findIndex((delivery) => delivery.cursor === after) + 1;
      expect(told).toEqual(log.slice(from).map((delivery) => delivery.cursor));
      listening.reader.close();
    }
  });

  it("by correlationId it follows a whole run", async () => {
    const listening = await listen(world.url, { [JOBS]: { correlationId: "run-7" } });
    await world.tidings.start(quick, { steps: 1 }, { correlationId: "run-8" });
    const { jobId } = await world.tidings.start(quick, { steps: 1 }, { correlationId: "run-7" });
    await listening.next();
    const told = (await listening.until(endsStory)).map((message) => eventOf(message).event);
    expect(told).toEqual((await logOf(jobId)).map(({ event }) => event));
    listening.reader.close();
  });

  it("another owner's jobs and unknown ones are left out of the acknowledgement alike", async () => {
    const { jobId: foreign } = await world.tidings.start(quick, { steps: 1 }, { owner: "ann" });
    for (const jobId of [foreign, "unknown", "../x", "__proto__"]) {
      const listening = await listen(world.url, {
        resourceSubscriptions: [`job://${jobId}`, `job://${jobId}/result`],
        [JOBS]: { jobIds: [jobId] },
      });
      // With nothing left to tell, the subscription is acknowledged and completed.
      expect((await listening.next())?.params?.notifications).toEqual({});
      expect((await listening.next())?.result).toMatchObject({ resultType: "complete" });
      expect(await listening.next()).toBeUndefined();
    }
    const own = await listen(
      world.url,
      { [JOBS]: { jobIds: [foreign, "unknown"] } },
      {
        headers: { Authorization: "Bearer ann" },
      },
    );
    expect((await own.next())?.params?.notifications).toEqual({ [JOBS]: { jobIds: [foreign] } });
    own.reader.close();
  });

  it("an owner hears nothing of another owner", async () => {
    const ann = await listen(world.url, { [JOBS]: {} }, { headers: { Authorization: "Bearer ann" } });
    await ann.next();
    await world.tidings.start(quick, { steps: 1 }, { owner: "bob" });
    await world.tidings.start(quick, { steps: 1 });
    const { jobId } = await world.tidings.start(quick, { steps: 1 }, { owner: "ann" });
    const told = await ann.until(endsStory);
    expect(new Set(told.map((message) => eventOf(message).event.jobId))).toEqual(new Set([jobId]));
    ann.reader.close();
  });

  it("a resource of the owner's log is told with its event", async () => {
    const listening = await listen(world.url, { resourceSubscriptions: ["resource:product-feed"] });
    await listening.next();
    for (const owner of ["ann", "local"]) {
      await world.tidings.publish(
        { type: "resource.updated", resourceId: "resource:product-feed", changeType: owner },
        { owner },
      );
    }
    const message = await listening.next();
    expect(message?.params?.uri).toBe("resource:product-feed");
    expect(eventOf(message).event).toMatchObject({ type: "resource.updated", changeType: "local" });
    listening.reader.close();
  });

  it("a cursor older than what is kept gives a gap with snapshots first", async () => {
    // Where nobody follows yet: what somebody still follows is told from memory.
    const gappy = await createWorld();
    const { jobId, cursor } = await gappy.tidings.start(quick, { steps: 2 });
    await expect.poll(async () => (await gappy.tidings.get("local", jobId)).status).toBe("completed");
    await gappy.tidings.prune({ keepEvents: 1 });
    const listening = await listen(gappy.url, { [JOBS]: { jobIds: [jobId], after: cursor } });
    await listening.next();
    const gap = await listening.next();
    expect(gap?.method).toBe("notifications/dev.tidings/gap");
    expect(gap?.params?.snapshots).toEqual([await gappy.tidings.get("local", jobId)]);
    expect(gap?.params?._meta).toMatchObject({ "dev.tidings/cursor": cursor, [SUBSCRIPTION]: 1 });
    expect(eventOf(await listening.next()).event.type).toBe("job.completed");
    await gappy.close();
  });

  it("heartbeats carry the cursor that was reached, and no seq", async () => {
    const clock = createManualClock();
    const quiet = await createWorld({ clock, heartbeatMs: 15_000 });
    const listening = await listen(quiet.url, { [JOBS]: {} });
    await listening.next();
    const { jobId } = await quiet.tidings.start(quick, { steps: 1 });
    const told = await listening.until(endsStory);
    clock.advance(15_000);
    const beat = eventOf(await listening.next()).event;
    expect(beat).toEqual({
      eventId: expect.stringMatching(/^evt_/),
      type: "system.heartbeat",
      timestamp: "2030-01-01T00:00:15.000Z",
      source: "tidings",
      cursor: told.at(-1)?.params?._meta?.["dev.tidings/cursor"],
    });
    expect((await quiet.tidings.get("local", jobId)).seq).toBe(told.length);
    await quiet.close();
  });

  it("ends with the complete result when the server stops", async () => {
    const stopping = await createWorld();
    const listening = await listen(stopping.url, { [JOBS]: {} }, { id: "last" });
    await listening.next();
    await stopping.handler.close();
    expect(await listening.next()).toMatchObject({
      id: "last",
      result: {
        resultType: "complete",
        _meta: {
          [SUBSCRIPTION]: "last",
          "io.modelcontextprotocol/serverInfo": { name: "http-world", version: "1.0.0" },
        },
      },
    });
    expect(await listening.next()).toBeUndefined();
    const refused = await modern(stopping.url, "subscriptions/listen", { notifications: {} });
    expect(refused.status).toBe(503);
    await stopping.close();
  });

  describe("is judged like every other request", () => {
    const params = { _meta: ENVELOPE, notifications: { [JOBS]: {} } };
    const request = { jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params };
    const version = { "MCP-Protocol-Version": MODERN };
    const method = { "Mcp-Method": "subscriptions/listen" };

    it.each([
      ["no Mcp-Method", request, version, 400, -32020],
      ["another Mcp-Method", request, { ...version, "Mcp-Method": "tools/list" }, 400, -32020],
      ["no MCP-Protocol-Version", request, method, 400, -32020],
      [
        "an unknown version",
        {
          ...request,
          params: {
            ...params,
            _meta: { ...ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2099-01-01" },
          },
        },
        { ...method, "MCP-Protocol-Version": "2099-01-01" },
        400,
        -32022,
      ],
      ["no envelope", { ...request, params: { notifications: {} } }, { ...version, ...method }, 400, -32602],
      ["no filter", { ...request, params: { _meta: ENVELOPE } }, { ...version, ...method }, 200, -32602],
    ] as const)("%s", async (_, body, headers, status, code) => {
      const response = await post(world.url, body, { ...headers });
      expect(response.status).toBe(status);
      expect(await response.json()).toMatchObject({ id: 1, error: { code } });
    });

    it.each([
      [7],
      [{ toolsListChanged: "yes" }],
      [{ resourceSubscriptions: "job://x" }],
      [{ resourceSubscriptions: [1] }],
      [{ resourceSubscriptions: Array.from({ length: 1001 }, (_, index) => `x:${index}`) }],
      [{ [JOBS]: [] }],
      [{ [JOBS]: { jobIds: "x" } }],
      [{ [JOBS]: { jobIds: [""] } }],
      [{ [JOBS]: { correlationId: 1 } }],
      [{ [JOBS]: { after: 1 } }],
    ])("the filter %j is refused with a sentence", async (notifications) => {
      const response = await modern(world.url, "subscriptions/listen", { notifications });
      expect(await response.json()).toMatchObject({ error: { code: -32602, data: { code: "BAD_INPUT" } } });
    });
  });

  it("one owner's streams are bounded, and others do not notice", async () => {
    const small = await createWorld({ maxStreamsPerOwner: 1 });
    const first = await listen(small.url, { [JOBS]: {} });
    await first.next();
    const second = await modern(small.url, "subscriptions/listen", { notifications: { [JOBS]: {} } });
    expect(await second.json()).toMatchObject({
      error: { code: -32603, data: { code: "TOO_MANY_REQUESTS" } },
    });
    const other = await listen(small.url, { [JOBS]: {} }, { headers: { Authorization: "Bearer ann" } });
    expect((await other.next())?.method).toBe("notifications/subscriptions/acknowledged");
    await small.close();
  });

  it("two listens that meet the limit together: one is refused under its id and leaves nothing on the bus", async () => {
    const heard = new Set<unknown>();
    const counted: ServerEventBus = {
      publish: () => {},
      subscribe(listener) {
        heard.add(listener);
        return () => void heard.delete(listener);
      },
    };
    let asking = 0;
    const both = createGate();
    const together = (tidings: Tidings): Tidings => ({
      ...tidings,
      async head(owner) {
        if (++asking === 2) both.open();
        await both.opened;
        return tidings.head(owner);
      },
    });
    const small = await createWorld({ maxStreamsPerOwner: 1, bus: counted, wrap: together });
    const answers = await Promise.all(
      ["a", "b"].map((id) =>
        modern(
          small.url,
          "subscriptions/listen",
          { notifications: { resourceSubscriptions: ["resource:feed"] } },
          { id },
        ),
      ),
    );
    const refused = answers.filter(({ headers }) => headers.get("content-type") === "application/json");
    expect(refused).toHaveLength(1);
    expect(await refused[0]?.json()).toMatchObject({
      id: expect.stringMatching(/^[ab]$/),
      error: { data: { code: "TOO_MANY_REQUESTS" } },
    });
    expect(heard.size).toBe(1);
    await small.handler.close();
    await expect.poll(() => heard.size).toBe(0);
    await small.close();
  });

  it("a job goes on when its listener leaves", async () => {
    gates.set("leave", createGate());
    const { jobId } = await world.tidings.start(gated, { gate: "leave" });
    const listening = await listen(world.url, { [JOBS]: { jobIds: [jobId] } });
    await listening.next();
    listening.reader.close();
    gates.get("leave")?.open();
    await waitForEnd(jobId);
    expect((await world.tidings.get("local", jobId)).status).toBe("completed");
  });
});
