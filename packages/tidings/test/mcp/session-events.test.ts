import type { Transport } from "@modelcontextprotocol/server";
import { McpServer } from "@modelcontextprotocol/server";
import type { Tidings } from "tidings";
import { registerJob } from "tidings/mcp";
import { beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { findJobServer } from "../../src/mcp/server/register-job.ts";
import { readMessage } from "../../src/model/projection/read.ts";
import type { Connection, Notification } from "./support.ts";
import {
  call,
  connect,
  count,
  createCountServer,
  ERAS,
  ended,
  eventsIn,
  gate,
  methodsIn,
  openTidings,
  storyOf,
} from "./support.ts";

const READING_TOOLS = ["get_job", "get_job_events", "list_my_jobs"];

/** Resolves once the connection was sent the ending of a job. */
async function toldTheEnd({ notifications }: Connection, jobId: string): Promise<void> {
  await expect
    .poll(() =>
      eventsIn(notifications).some(
        ({ event }) => event.jobId === jobId && /completed|failed|canceled/.test(event.type),
      ),
    )
    .toBe(true);
}

describe.each(ERAS)("events of started jobs, on %s", (era) => {
  let tidings: Tidings;
  let server: McpServer;
  let connection: Connection;

  beforeEach(async () => {
    tidings = await openTidings("memory:");
    connection = await connect(() => {
      server = createCountServer(tidings);
      return server;
    }, era);
  });

  const start = async (args: Record<string, unknown> = {}): Promise<string> =>
    (await call(connection.client, "start_count", args)).content.jobId;
  const tails = () => findJobServer(server)?.session.tails;
  /** On 2026-07-28 over stdio one more tail offers events to the SDK's listen router. */
  const resting = era === "2026-07-28" ? 1 : 0;

  it("come as notifications, the whole story in order, each with its cursor, without any reading", async () => {
    const jobId = await start({ correlationId: "run-1", log: "Slow today", touch: "resource:thing" });
    await toldTheEnd(connection, jobId);
    const told = eventsIn(connection.notifications);
    const story = await storyOf(tidings, jobId);
    expect(told.map(({ event, cursor }) => ({ event, cursor }))).toEqual(story);
    const asked = connection.log.sent.flatMap((message) =>
      "method" in message && message.method === "tools/call" ? [message.params?.name as string] : [],
    );
    expect(asked.filter((name) => READING_TOOLS.includes(name))).toEqual([]);
    expect(methodsIn(connection.log.sent)).not.toContain("subscriptions/listen");
  });

  it("begin after the answer, so that the client knows the job", async () => {
    const jobId = await start();
    await toldTheEnd(connection, jobId);
    const answerAt = connection.log.received.findIndex((message) =>
      JSON.stringify(message).includes('"structuredContent"'),
    );
    const createdAt = connection.log.received.findIndex(
      (message) => "method" in message && message.method === "notifications/job/created",
    );
    expect(answerAt).toBeGreaterThanOrEqual(0);
    expect(createdAt).toBeGreaterThan(answerAt);
  });

  it("are sent once when a start is repeated, during the job and after its end", async () => {
    const jobId = await start({ idempotencyKey: "k", gate: `repeat-${era}` });
    expect(await start({ idempotencyKey: "k", gate: `repeat-${era}` })).toBe(jobId);
    gate(`repeat-${era}`).open();
    await toldTheEnd(connection, jobId);
    expect(await start({ idempotencyKey: "k", gate: `repeat-${era}` })).toBe(jobId);
    const marker = await start({ to: 1 });
    await toldTheEnd(connection, marker);
    const ids = eventsIn(connection.notifications)
      .filter(({ event }) => event.jobId === jobId)
      .map(({ event }) => event.eventId);
    expect(ids).toEqual((await storyOf(tidings, jobId)).map(({ event }) => event.eventId));
  });

  it("come for a retried job as well", async () => {
    const jobId = await start({ fail: true });
    await toldTheEnd(connection, jobId);
    const retried = (await call(connection.client, "retry_job", { jobId })).content.jobId;
    await toldTheEnd(connection, retried);
    expect(
      eventsIn(connection.notifications).find(({ event }) => event.jobId === retried)?.event,
    ).toMatchObject({
      type: "job.created",
      retryOf: jobId,
    });
  });

  it("do not come for jobs that others started", async () => {
    const { jobId: others } = await tidings.start(count, { to: 2 });
    await ended(tidings, others);
    const mine = await start();
    await toldTheEnd(connection, mine);
    expect(eventsIn(connection.notifications).every(({ event }) => event.jobId === mine)).toBe(true);
  });

  it("of many jobs at once come complete and in order for each", async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => start({ to: 20 })));
    await Promise.all(ids.map((jobId) => toldTheEnd(connection, jobId)));
    for (const jobId of ids) {
      const told = eventsIn(connection.notifications).filter(({ event }) => event.jobId === jobId);
      expect(told.map(({ event }) => event.seq)).toEqual(told.map((_, index) => index + 1));
      expect(told).toHaveLength((await storyOf(tidings, jobId)).length);
    }
  });

  it("leave nothing running after the jobs' ends", async () => {
    const ids = await Promise.all([start(), start({ fail: true })]);
    await Promise.all(ids.map((jobId) => toldTheEnd(connection, jobId)));
    await expect.poll(tails).toBe(resting);
  });

  it("leave nothing running when the connection closes in the middle, and the job goes on", async () => {
    const jobId = await start({ gate: `close-${era}` });
    await connection.client.close();
    await expect.poll(tails).toBe(0);
    gate(`close-${era}`).open();
    await ended(tidings, jobId);
    expect((await tidings.get("local", jobId)).status).toBe("completed");
  });

  it("stop at close even when the server's own onclose was set later", async () => {
    const seen: string[] = [];
    server.server.onclose = () => seen.push("own");
    await start({ gate: "never" });
    await connection.client.close();
    await expect.poll(tails).toBe(0);
    expect(seen).toEqual(["own"]);
  });

  it("are sent one at a time: a slow transport holds them back", async () => {
    let sending = 0;
    let most = 0;
    const slow = (inner: Transport): Transport => {
      const send = inner.send.bind(inner);
      inner.send = async (message, options) => {
        if (!("method" in message)) return send(message, options);
        sending += 1;
        most = Math.max(most, sending);
        await new Promise((resolve) => setImmediate(resolve));
        await send(message, options);
        sending -= 1;
      };
      return inner;
    };
    const slowed = await connect(() => createCountServer(tidings), era, slow);
    const { jobId } = (await call(slowed.client, "start_count", { to: 30 })).content;
    const { jobId: second } = (await call(slowed.client, "start_count", { to: 30 })).content;
    await toldTheEnd(slowed, jobId);
    await toldTheEnd(slowed, second);
    expect(most).toBe(1);
  });

  it("are never notifications/progress, whatever the token (FC-01, FC-02, FC-03)", async () => {
    const ids: string[] = [];
    for (const progressToken of [0, "", "a", 7, undefined]) {
      const result = await connection.client.callTool({
        name: "start_count",
        arguments: { to: 10 },
        ...(progressToken === undefined ? {} : { _meta: { progressToken } }),
      });
      ids.push((result.structuredContent as { jobId: string }).jobId);
    }
    const progressed: unknown[] = [];
    const answer = await connection.client.callTool(
      { name: "start_count", arguments: { to: 10 } },
      { onprogress: (progress) => progressed.push(progress) },
    );
    ids.push((answer.structuredContent as { jobId: string }).jobId);
    await Promise.all(ids.map((jobId) => toldTheEnd(connection, jobId)));
    expect(progressed).toEqual([]);
    expect(methodsIn(connection.log.received)).not.toContain("notifications/progress");
    for (const jobId of ids) {
      const told = eventsIn(connection.notifications).filter(({ event }) => event.jobId === jobId);
      expect(told.map(({ event }) => event.eventId)).toEqual(
        (await storyOf(tidings, jobId)).map(({ event }) => event.eventId),
      );
    }
  });
});

describe.each(ERAS)("an ordinary tool beside the jobs, on %s", (era) => {
  it.each([[0], [""], ["a"], [7], [undefined]])(
    "reports under the very token it was given: %j (FC-01)",
    async (token) => {
      const tidings = await openTidings("memory:");
      const { client, log } = await connect(() => {
        const server = createCountServer(tidings);
        server.registerTool("five", { inputSchema: z.object({}) }, async (_args, { mcpReq }) => {
          const progressToken = mcpReq._meta?.progressToken;
          for (let progress = 1; progress <= 5 && progressToken !== undefined; progress += 1) {
            await mcpReq.notify({
              method: "notifications/progress",
              params: { progressToken, progress, total: 5 },
            });
          }
          return { content: [] };
        });
        return server;
      }, era);
      await client.callTool({
        name: "five",
        arguments: {},
        ...(token === undefined ? {} : { _meta: { progressToken: token } }),
      });
      const reports = log.received.filter((m) => "method" in m && m.method === "notifications/progress");
      const tokens = reports.map((m) => ("params" in m ? m.params?.progressToken : undefined));
      expect(tokens).toEqual(token === undefined ? [] : Array(5).fill(token));
      expect(
        log.received.findLastIndex((m) => "method" in m && m.method === "notifications/progress"),
      ).toBeLessThan(log.received.findLastIndex((m) => "result" in m));
    },
  );
});

describe("system.log on 2025-11-25", () => {
  it("comes as notifications/message with the event in _meta, and respects the level that the client asked for", async () => {
    const tidings = await openTidings("memory:");
    const connection = await connect(() => createCountServer(tidings));
    const messages: Notification[] = [];
    connection.client.setNotificationHandler("notifications/message", (notification) => {
      messages.push(notification as unknown as Notification);
    });
    const start = async () => {
      const { jobId } = (await call(connection.client, "start_count", { log: "Slow today" })).content;
      await toldTheEnd(connection, jobId);
    };
    await start();
    expect(messages).toMatchObject([{ params: { level: "warning", logger: "count", data: "Slow today" } }]);
    expect(readMessage(messages[0])).toMatchObject({ kind: "event", event: { type: "system.log" } });
    await connection.client.setLoggingLevel("error");
    await start();
    expect(messages).toHaveLength(1);
  });
});

describe("resources/subscribe on 2025-11-25", () => {
  let tidings: Tidings;
  let server: McpServer;
  let connection: Connection;

  beforeEach(async () => {
    tidings = await openTidings("memory:");
    connection = await connect(() => {
      server = createCountServer(tidings);
      return server;
    });
  });

  const tails = () => findJobServer(server)?.session.tails;
  const updates = (uri: string) =>
    connection.notifications.filter(
      ({ method, params }) => method === "notifications/resources/updated" && params?.uri === uri,
    );

  it("sends every event of job://{jobId} from now on, in _meta, and ends with the job", async () => {
    const { jobId } = await tidings.start(count, { to: 5, gate: "subscribe" });
    await expect.poll(async () => (await tidings.get("local", jobId)).percentage).toBe(50);
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
    await expect.poll(tails).toBe(0);
  });

  it("stops at unsubscribe", async () => {
    const { jobId } = await tidings.start(count, { gate: "unsubscribe" });
    await connection.client.subscribeResource({ uri: `job://${jobId}` });
    await connection.client.unsubscribeResource({ uri: `job://${jobId}` });
    await expect.poll(tails).toBe(0);
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
    expect(tails()).toBe(0);
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
    expect(tails()).toBe(0);
  });

  it("sends changes of another resource of this owner only", async () => {
    const uri = "resource:product-feed";
    await connection.client.subscribeResource({ uri });
    const changed = { type: "resource.updated", resourceId: uri, changeType: "snapshot_ready" } as const;
    await tidings.publish(changed, { owner: "ann" });
    await tidings.publish(changed, {});
    await expect.poll(() => updates(uri)).toHaveLength(1);
    expect(readMessage(updates(uri)[0])).toMatchObject({
      kind: "event",
      event: { type: "resource.updated" },
    });
    await connection.client.unsubscribeResource({ uri });
    await expect.poll(tails).toBe(0);
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
    await expect.poll(async () => (await tidings.get("local", jobId)).percentage).toBe(50);
    const { cursor } = await tidings.get("local", jobId);
    const uri = `job://${jobId}`;
    const updates = () => notifications.filter(({ method }) => method === "notifications/resources/updated");
    expect(updates()).toEqual([]);
    const subscription = await client.listen({ resourceSubscriptions: [uri] });
    expect(subscription.honoredFilter).toEqual({ resourceSubscriptions: [uri] });
    gate("stock-listen").open();
    await ended(tidings, jobId);
    const { events } = await tidings.read({ owner: "local", jobIds: [jobId], after: cursor });
    await expect.poll(updates).toHaveLength(events.length);
    expect(eventsIn(updates()).map(({ event, cursor: at }) => ({ event, cursor: at }))).toEqual(events);
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
