import { McpServer } from "@modelcontextprotocol/server";
import type { Tidings } from "tidings";
import { registerJob } from "tidings/mcp";
import { beforeEach, describe, expect, it } from "vitest";
import { readMessage } from "../../src/model/projection/read.ts";
import type { Connection } from "./support.ts";
import {
  call,
  connect,
  count,
  countTold,
  createCountServer,
  ended,
  eventsIn,
  gate,
  openTidings,
  PATIENTLY,
  storyOf,
  toldTheEnd,
} from "./support.ts";

describe("resources/subscribe on 2025-11-25", () => {
  let tidings: Tidings;
  let connection: Connection;
  let told: () => number;

  beforeEach(async () => {
    tidings = await openTidings("memory:");
    told = countTold(tidings);
    connection = await connect(() => createCountServer(tidings));
  });

  const updates = (uri: string) =>
    connection.notifications.filter(
      ({ method, params }) => method === "notifications/resources/updated" && params?.uri === uri,
    );

  it("sends every event of job://{jobId} from now on, in _meta, and ends with the job", async () => {
    const { jobId } = await tidings.start(count, { to: 5, gate: "subscribe" });
    await expect.poll(async () => (await tidings.get("local", jobId)).percentage, PATIENTLY).toBe(50);
    const { cursor } = await tidings.get("local", jobId);
    const uri = `job://${jobId}`;
    await connection.client.subscribeResource({ uri });
    gate("subscribe").open();
    await toldTheEnd(connection, jobId);
    const { events } = await tidings.read({ owner: "local", jobIds: [jobId], after: cursor });
    expect(updates(uri).map(({ params }) => params?._meta)).toEqual(
      events.map((delivery) => ({
        "dev.tidings/event": delivery.event,
        "dev.tidings/cursor": delivery.cursor,
      })),
    );
    await expect.poll(() => told(), PATIENTLY).toBe(0);
  });

  it("stops at unsubscribe", async () => {
    const { jobId } = await tidings.start(count, { gate: "unsubscribe" });
    await connection.client.subscribeResource({ uri: `job://${jobId}` });
    await connection.client.unsubscribeResource({ uri: `job://${jobId}` });
    await expect.poll(() => told(), PATIENTLY).toBe(0);
    gate("unsubscribe").open();
    await ended(tidings, jobId);
    expect(
      updates(`job://${jobId}`).filter(({ params }) => JSON.stringify(params).includes("completed")),
    ).toEqual([]);
  });

  it("follows nothing for a job that has ended", async () => {
    const { jobId } = await tidings.start(count, { to: 1 });
    await ended(tidings, jobId);
    await connection.client.subscribeResource({ uri: `job://${jobId}` });
    expect(told()).toBe(0);
  });

  it("answers for an unknown and a foreign job alike", async () => {
    const { jobId } = await tidings.start(count, { gate: "never" }, { owner: "ann" });
    for (const uri of [`job://${jobId}`, "job://count_nothing"]) {
      await expect(connection.client.subscribeResource({ uri })).rejects.toMatchObject({
        code: -32602,
        message: expect.stringContaining(`Resource not found: ${uri}`),
        data: { uri },
      });
    }
    expect(told()).toBe(0);
  });

  it("sends changes of another resource of this owner only", async () => {
    const uri = "resource:product-feed";
    await connection.client.subscribeResource({ uri });
    const changed = { type: "resource.updated", resourceId: uri, changeType: "snapshot_ready" } as const;
    await tidings.publish(changed, { owner: "ann" });
    await tidings.publish(changed, {});
    await expect.poll(() => updates(uri), PATIENTLY).toHaveLength(1);
    expect(readMessage(updates(uri)[0])).toMatchObject({
      kind: "event",
      event: { type: "resource.updated" },
    });
    await connection.client.unsubscribeResource({ uri });
    await expect.poll(() => told(), PATIENTLY).toBe(0);
  });

  it("keeps two connections apart: each hears of its own jobs only", async () => {
    const others: Connection[] = [];
    for (let i = 0; i < 5; i += 1) others.push(await connect(() => createCountServer(tidings)));
    const ids = await Promise.all(
      others.map(async ({ client }) => (await call(client, "start_count")).content.jobId),
    );
    await Promise.all(others.map((other, index) => toldTheEnd(other, ids[index])));
    for (const [index, other] of others.entries()) {
      expect(new Set(eventsIn(other.notifications).map(({ event }) => event.jobId))).toEqual(
        new Set([ids[index]]),
      );
    }
  });
});

describe("subscriptions/listen on 2026-07-28 with the SDK's own serveStdio", () => {
  it("sends updates of job://{jobId} with the event in _meta, to whoever listens and nobody else", async () => {
    const tidings = await openTidings("memory:");
    const { client, log, notifications } = await connect(() => createCountServer(tidings), "2026-07-28");
    const { jobId } = (await call(client, "start_count", { gate: "stock-listen" })).content;
    await expect.poll(async () => (await tidings.get("local", jobId)).percentage, PATIENTLY).toBe(50);
    const { cursor } = await tidings.get("local", jobId);
    const uri = `job://${jobId}`;
    const updates = () => notifications.filter(({ method }) => method === "notifications/resources/updated");
    expect(updates()).toEqual([]);
    const subscription = await client.listen({ resourceSubscriptions: [uri] });
    expect(subscription.honoredFilter).toEqual({ resourceSubscriptions: [uri] });
    gate("stock-listen").open();
    await ended(tidings, jobId);
    const { events } = await tidings.read({ owner: "local", jobIds: [jobId], after: cursor });
    const told = () => eventsIn(updates()).map(({ event, cursor: at }) => ({ event, cursor: at }));
    await expect.poll(() => told().at(-1)?.event.type, PATIENTLY).toBe("job.completed");
    // What happened just before may still be on its way when the listen begins; then it comes too, in order.
    expect(told().slice(-events.length)).toEqual(events);
    expect(told()).toEqual((await storyOf(tidings, jobId)).slice(-told().length));
    const raw = log.received.filter((m) => "method" in m && m.method === "notifications/resources/updated");
    for (const message of raw) {
      expect("params" in message && message.params?._meta).toHaveProperty([
        "io.modelcontextprotocol/subscriptionId",
      ]);
    }
    await subscription.close();
  });
});

describe("two servers of two owners", () => {
  it("never tell one of the other's jobs (the owner comes from the request)", async () => {
    const tidings = await openTidings("memory:");
    const make = (name: string) => () => {
      const server = new McpServer({ name, version: "1.0.0" });
      registerJob(server, tidings, count, { tool: "start_count", owner: () => name });
      return server;
    };
    const ann = await connect(make("ann"), "2026-07-28");
    const bob = await connect(make("bob"), "2026-07-28");
    const { jobId } = (await call(ann.client, "start_count")).content;
    await call(bob.client, "list_my_jobs");
    await bob.client.listen({ resourceSubscriptions: [`job://${jobId}`] });
    await toldTheEnd(ann, jobId);
    expect(eventsIn(bob.log.received)).toEqual([]);
  });
});
