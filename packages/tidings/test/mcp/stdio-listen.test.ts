import { PassThrough } from "node:stream";
import { Client } from "@modelcontextprotocol/client";
import type { Transport } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import type { Tidings } from "tidings";
import { createTidings } from "tidings";
import type { StdioOptions } from "tidings/mcp";
import { serveTidingsStdio } from "tidings/mcp";
import { describe, expect, it, onTestFinished } from "vitest";
import { createMemoryEngine } from "../../src/engine/memory/index.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { Notification } from "./support.ts";
import {
  count,
  countTold,
  createCountServer,
  ended,
  eventsIn,
  gate,
  MODERN,
  methodsIn,
  openTidings,
  PATIENTLY,
  storyOf,
  tap,
} from "./support.ts";

const JOBS = "dev.tidings/jobs";
const SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId";

async function connectStdio(tidings: Tidings, options: StdioOptions = {}) {
  const [toServer, toClient] = [new PassThrough(), new PassThrough()];
  const errors: Error[] = [];
  const told = countTold(tidings);
  const handle = serveTidingsStdio(tidings, () => createCountServer(tidings), {
    stdin: toServer,
    stdout: toClient,
    onError: (error) => errors.push(error),
    ...options,
  });
  onTestFinished(() => handle.close());
  // The transport is the same in both directions.
  const { transport, log } = tap(new StdioServerTransport(toClient, toServer) as Transport);
  const client = new Client({ name: "test", version: "1.0.0" }, MODERN);
  const notifications: Notification[] = [];
  client.fallbackNotificationHandler = async (notification) => {
    notifications.push(notification as Notification);
  };
  await client.connect(transport);
  onTestFinished(() => client.close());
  const listen = (filter: Record<string, unknown>) =>
    client.listen(filter as Parameters<Client["listen"]>[0]);
  const acknowledged = () =>
    log.received.flatMap((message) =>
      "method" in message && message.method === "notifications/subscriptions/acknowledged"
        ? [message.params?.notifications]
        : [],
    );
  return { client, log, notifications, errors, listen, acknowledged, handle, told };
}

describe("subscriptions/listen over stdio", () => {
  it("takes our own filter and replays after a cursor: the whole story, tagged, without any reading", async () => {
    const tidings = await openTidings("memory:");
    const { jobId, cursor } = await tidings.start(count, { to: 5, log: "Slow", touch: "resource:thing" });
    await ended(tidings, jobId);
    const { listen, acknowledged, notifications, log } = await connectStdio(tidings);
    await listen({ [JOBS]: { jobIds: [jobId], after: cursor } });
    expect(acknowledged()).toEqual([{ [JOBS]: { jobIds: [jobId], after: cursor } }]);
    const story = await storyOf(tidings, jobId);
    await expect.poll(() => eventsIn(notifications), PATIENTLY).toHaveLength(story.length);
    expect(eventsIn(notifications).map(({ event, cursor: at }) => ({ event, cursor: at }))).toEqual(story);
    const ids = log.received.flatMap((m) => {
      const meta = "params" in m ? (m.params?._meta as Record<string, unknown> | undefined) : undefined;
      return eventsIn([m]).length > 0 ? [meta?.[SUBSCRIPTION_ID]] : [];
    });
    const asked = log.sent.find((m) => "method" in m && m.method === "subscriptions/listen");
    expect(new Set(ids)).toEqual(new Set([asked !== undefined && "id" in asked && asked.id]));
    expect(methodsIn(log.sent)).not.toContain("tools/call");
    expect(methodsIn(log.received)).toContain("notifications/system/log");
  });

  it("tells only what comes when no cursor is given, and stops when the client lets go", async () => {
    const tidings = await openTidings("memory:");
    const before = await tidings.start(count, { to: 2 }, { correlationId: "run-1" });
    await ended(tidings, before.jobId);
    const { listen, notifications } = await connectStdio(tidings);
    const subscription = await listen({ [JOBS]: { correlationId: "run-1" } });
    const during = await tidings.start(count, { to: 2 }, { correlationId: "run-1" });
    const other = await tidings.start(count, { to: 2 }, { correlationId: "run-2" });
    await Promise.all([ended(tidings, during.jobId), ended(tidings, other.jobId)]);
    const story = await storyOf(tidings, during.jobId);
    await expect.poll(() => eventsIn(notifications), PATIENTLY).toHaveLength(story.length);
    expect(eventsIn(notifications).map(({ event }) => event)).toEqual(story.map(({ event }) => event));
    await subscription.close();
    const marker = await listen({ [JOBS]: { correlationId: "run-3" } });
    const after = await tidings.start(count, { to: 2 }, { correlationId: "run-1" });
    const last = await tidings.start(count, { to: 2 }, { correlationId: "run-3" });
    await Promise.all([ended(tidings, after.jobId), ended(tidings, last.jobId)]);
    await expect
      .poll(
        () =>
          eventsIn(notifications).some(
            ({ event }) => event.jobId === last.jobId && event.type === "job.completed",
          ),
        PATIENTLY,
      )
      .toBe(true);
    expect(eventsIn(notifications).some(({ event }) => event.jobId === after.jobId)).toBe(false);
    await marker.close();
  });

  it("loses nothing between the acknowledgement and the first event, in 100 rounds", async () => {
    const tidings = await openTidings("memory:");
    const { listen, notifications } = await connectStdio(tidings);
    for (let round = 0; round < 100; round += 1) {
      const correlationId = `round-${round}`;
      const listening = listen({ [JOBS]: { correlationId } });
      const subscription = await listening;
      const { jobId } = await tidings.start(count, { to: 1 }, { correlationId });
      await expect
        .poll(
          () =>
            eventsIn(notifications)
              .filter(({ event }) => event.jobId === jobId)
              .map(({ event }) => event.type),
          PATIENTLY,
        )
        .toEqual(expect.arrayContaining(["job.created", "job.completed"]));
      await subscription.close();
    }
  });

  it.each(["nonsense", "AAAAAAAAAAAAAAAAAAAAAA"])(
    "refuses the cursor %s before it acknowledges anything",
    async (after) => {
      const tidings = await openTidings("memory:");
      const { jobId } = await tidings.start(count, { to: 1 });
      const { listen, acknowledged } = await connectStdio(tidings);
      await expect(listen({ [JOBS]: { jobIds: [jobId], after } })).rejects.toMatchObject({
        code: -32602,
        data: { code: "BAD_CURSOR", retryable: false },
      });
      expect(acknowledged()).toEqual([]);
    },
  );

  it("acknowledges truthfully: unknown and foreign jobs are left out alike", async () => {
    const tidings = await openTidings("memory:");
    const mine = (await tidings.start(count, { to: 1 })).jobId;
    const foreign = (await tidings.start(count, { to: 1 }, { owner: "ann" })).jobId;
    const { listen, acknowledged } = await connectStdio(tidings);
    const ids = [mine, foreign, "count_nothing"];
    await listen({
      resourceSubscriptions: ids.map((id) => `job://${id}`),
      [JOBS]: { jobIds: ids },
      toolsListChanged: true,
    });
    expect(acknowledged()).toEqual([
      { toolsListChanged: true, resourceSubscriptions: [`job://${mine}`], [JOBS]: { jobIds: [mine] } },
    ]);
  });

  it("sends updates of job://{jobId} to a stock client that has called no tool", async () => {
    const tidings = await openTidings("memory:");
    const { jobId } = await tidings.start(count, { gate: "no-tool" });
    await expect.poll(async () => (await tidings.get("local", jobId)).percentage, PATIENTLY).toBe(50);
    const { cursor } = await tidings.get("local", jobId);
    const { client, notifications, log } = await connectStdio(tidings);
    await client.listen({ resourceSubscriptions: [`job://${jobId}`] });
    gate("no-tool").open();
    await ended(tidings, jobId);
    const { events } = await tidings.read({ owner: "local", jobIds: [jobId], after: cursor });
    await expect.poll(() => notifications, PATIENTLY).toHaveLength(events.length);
    expect(eventsIn(notifications).map(({ event }) => event)).toEqual(events.map(({ event }) => event));
    expect(methodsIn(log.sent)).not.toContain("tools/call");
  });

  it("tells of a gap, with a snapshot of each job, when the cursor is older than what is kept", async () => {
    const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
    const tidings = await createTidings({ store: engine, jobs: [count] });
    onTestFinished(() => tidings.close());
    const { jobId, cursor } = await tidings.start(count, {});
    await ended(tidings, jobId);
    await engine.prune({ keepEvents: 2 });
    const { listen, notifications } = await connectStdio(tidings);
    await listen({ [JOBS]: { jobIds: [jobId], after: cursor } });
    await expect.poll(() => eventsIn(notifications), PATIENTLY).not.toEqual([]);
    expect(notifications[0]).toMatchObject({
      method: "notifications/dev.tidings/gap",
      params: { snapshots: [{ jobId, status: "completed", percentage: 100 }] },
    });
  });

  it("says that it is alive while nothing happens, with the cursor that was reached", async () => {
    const tidings = await openTidings("memory:");
    const clock = createManualClock();
    const { listen, notifications } = await connectStdio(tidings, { clock, heartbeatMs: 15_000 });
    const { cursor } = await tidings.start(count, { gate: "never" });
    const subscription = await listen({ [JOBS]: { correlationId: "nobody", after: cursor } });
    for (let beats = 1; beats <= 2; beats += 1) {
      await expect
        .poll(() => {
          clock.advance(15_000);
          return notifications.length;
        }, PATIENTLY)
        .toBeGreaterThanOrEqual(beats);
    }
    expect(eventsIn(notifications)[1]?.event).toEqual({
      eventId: expect.stringMatching(/^evt_/),
      type: "system.heartbeat",
      timestamp: expect.any(String),
      source: "tidings",
      cursor,
    });
    await subscription.close();
  });

  it("ends with its final result when the server closes, and leaves nothing running", async () => {
    const tidings = await openTidings("memory:");
    const { jobId } = await tidings.start(count, { gate: "never" });
    const { listen, handle, log, told, errors } = await connectStdio(tidings);
    await listen({ [JOBS]: { jobIds: [jobId] }, resourceSubscriptions: [`job://${jobId}`] });
    await handle.close();
    await handle.closed;
    await expect.poll(told, PATIENTLY).toBe(0);
    await expect
      .poll(
        () =>
          log.received.some(
            (m) =>
              "result" in m &&
              m.result.resultType === "complete" &&
              SUBSCRIPTION_ID in (m.result._meta ?? {}),
          ),
        PATIENTLY,
      )
      .toBe(true);
    expect(errors).toEqual([]);
  });

  it.each([[{ [JOBS]: "all" }], [{ [JOBS]: { jobIds: "a" } }], [{ [JOBS]: { after: 7 } }]])(
    "refuses the filter %j as BAD_INPUT",
    async (filter) => {
      const tidings = await openTidings("memory:");
      const { listen } = await connectStdio(tidings);
      await expect(listen(filter)).rejects.toMatchObject({ code: -32602, data: { code: "BAD_INPUT" } });
    },
  );
});
