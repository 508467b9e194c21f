import type { McpServer, Transport } from "@modelcontextprotocol/server";
import type { Tidings } from "tidings";
import { beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { readMessage } from "../../src/model/projection/read.ts";
import type { Connection, Notification } from "./support.ts";
import {
  call,
  connect,
  count,
  countTold,
  createCountServer,
  ERAS,
  ended,
  eventsIn,
  gate,
  methodsIn,
  openTidings,
  PATIENTLY,
  storyOf,
  toldTheEnd,
} from "./support.ts";

const READING_TOOLS = ["get_job", "get_job_events", "list_my_jobs"];

describe.each(ERAS)("events of started jobs, on %s", (era) => {
  let tidings: Tidings;
  let server: McpServer;
  let connection: Connection;
  let told: () => number;

  beforeEach(async () => {
    tidings = await openTidings("memory:");
    told = countTold(tidings);
    connection = await connect(() => {
      server = createCountServer(tidings);
      return server;
    }, era);
  });

  const start = async (args: Record<string, unknown> = {}): Promise<string> =>
    (await call(connection.client, "start_count", args)).content.jobId;
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
    await expect.poll(() => told(), PATIENTLY).toBe(resting);
  });

  it("leave nothing running when the connection closes in the middle, and the job goes on", async () => {
    const jobId = await start({ gate: `close-${era}` });
    await connection.client.close();
    await expect.poll(() => told(), PATIENTLY).toBe(0);
    gate(`close-${era}`).open();
    await ended(tidings, jobId);
    expect((await tidings.get("local", jobId)).status).toBe("completed");
  });

  it("stop at close even when the server's own onclose was set later", async () => {
    const seen: string[] = [];
    server.server.onclose = () => seen.push("own");
    await start({ gate: "never" });
    await connection.client.close();
    await expect.poll(() => told(), PATIENTLY).toBe(0);
    expect(seen).toEqual(["own"]);
  });

  it("of one job cost no reading for the others: a commit is read once, and once for the job it concerns", async () => {
    const JOBS = 200;
    const jobId = await start({ gate: `alone-${era}` });
    await expect.poll(async () => (await tidings.get("local", jobId)).percentage, PATIENTLY).toBe(50);
    const others = await Promise.all(Array.from({ length: JOBS }, () => start({ gate: `others-${era}` })));
    const created = () =>
      eventsIn(connection.notifications).filter(({ event }) => event.type === "job.created");
    await expect.poll(() => created().length, PATIENTLY).toBe(JOBS + 1);
    let reads = 0;
    const { read } = tidings;
    tidings.read = (request) => {
      reads += 1;
      return read.call(tidings, request);
    };
    gate(`alone-${era}`).open();
    await toldTheEnd(connection, jobId);
    expect(reads).toBeLessThan(JOBS / 2);
    gate(`others-${era}`).open();
    await Promise.all(others.map((other) => toldTheEnd(connection, other)));
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
