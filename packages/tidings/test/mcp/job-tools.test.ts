import type { Tidings } from "tidings";
import { createTidings } from "tidings";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { createMemoryEngine } from "../../src/engine/memory/index.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import type { Connection } from "./support.ts";
import {
  call,
  connect,
  count,
  createCountServer,
  ended,
  gate,
  openTidings,
  PATIENTLY,
  storyOf,
} from "./support.ts";

describe.each(["memory:", "sqlite:"] as const)("the shared tools, on %s", (store) => {
  let tidings: Tidings;
  let connection: Connection;
  const tool = (name: string, args?: Record<string, unknown>) => call(connection.client, name, args);

  beforeEach(async () => {
    tidings = await openTidings(store);
    connection = await connect(() => createCountServer(tidings));
  });

  async function start(args: Record<string, unknown> = {}): Promise<string> {
    return (await tool("start_count", args)).content.jobId;
  }

  const UNKNOWN = {
    isError: true,
    content: { error: { code: "JOB_NOT_FOUND", message: expect.any(String) } },
  };

  describe("get_job", () => {
    it("answers with the whole snapshot of an ended job", async () => {
      const jobId = await start({ correlationId: "run-1" });
      await ended(tidings, jobId);
      const { content } = await tool("get_job", { jobId });
      expect(content).toEqual({
        jobId,
        jobType: "count",
        status: "completed",
        percentage: 100,
        stage: "Second",
        stageKey: "second",
        attempt: 1,
        counts: {},
        createdAt: expect.stringMatching(/Z$/),
        startedAt: expect.stringMatching(/Z$/),
        endedAt: expect.stringMatching(/Z$/),
        summary: "Counted to 4",
        resultResourceId: `job://${jobId}/result`,
        correlationId: "run-1",
        cursor: expect.stringMatching(/^[!-~]+$/),
        seq: expect.any(Number),
      });
    });

    it("tells why a job failed and what to put right", async () => {
      const jobId = await start({ fail: true });
      await ended(tidings, jobId);
      const { content, isError } = await tool("get_job", { jobId });
      expect(isError).toBe(false);
      expect(content).toMatchObject({
        status: "failed",
        error: {
          code: "COUNT_FAILED",
          message: "The count went wrong.",
          hint: "Count again.",
          retryable: false,
        },
      });
    });

    it("knows no job that it does not know, and says nothing more", async () => {
      expect(await tool("get_job", { jobId: "count_nothing" })).toMatchObject(UNKNOWN);
    });

    it.each([[{}], [{ jobId: 7 }], [{ jobId: "" }], [{ jobId: ["a"] }], [{ jobId: null }]])(
      "refuses %j as BAD_INPUT with the name of the argument",
      async (args) => {
        const { isError, content } = await tool("get_job", args);
        expect(isError).toBe(true);
        expect(content.error).toMatchObject({
          code: "BAD_INPUT",
          retryable: false,
          hint: expect.any(String),
        });
        expect(content.error.message).toContain("jobId");
      },
    );
  });

  describe("get_job_events", () => {
    it("gives the story from the beginning: flat params, each with its cursor", async () => {
      const jobId = await start({ correlationId: "run-2" });
      await ended(tidings, jobId);
      const story = await storyOf(tidings, jobId);
      const { content } = await tool("get_job_events", { jobId });
      expect(content.events).toEqual(
        story.map(({ event, cursor }) => ({ ...event, _meta: { "dev.tidings/cursor": cursor } })),
      );
      expect(content).toMatchObject({ status: "completed", truncated: false, cursor: expect.any(String) });
      expect(content.snapshot).toBeUndefined();
      expect(new Date(content.serverTime).toISOString()).toBe(content.serverTime);
      expect(
        content.events.every((event: { correlationId: string }) => event.correlationId === "run-2"),
      ).toBe(true);
    });

    it("goes on after any cursor, its own and that of any other path", async () => {
      const jobId = await start();
      await ended(tidings, jobId);
      const story = await storyOf(tidings, jobId);
      const ids = (events: { eventId: string }[]) => events.map(({ eventId }) => eventId);
      for (const [index, { cursor }] of story.entries()) {
        const { content } = await tool("get_job_events", { jobId, after: cursor });
        expect(ids(content.events)).toEqual(story.slice(index + 1).map(({ event }) => event.eventId));
      }
      const { cursor } = (await tool("get_job", { jobId })).content;
      expect((await tool("get_job_events", { jobId, after: cursor })).content.events).toEqual([]);
    });

    it("pages without loss, says at once when more is ready, and names the end only with the last page", async () => {
      const jobId = await start({ to: 3 });
      await ended(tidings, jobId);
      const story = await storyOf(tidings, jobId);
      const read: string[] = [];
      let after: string | undefined;
      for (;;) {
        const { content } = await tool("get_job_events", { jobId, limit: 2, ...(after && { after }) });
        read.push(...content.events.map(({ eventId }: { eventId: string }) => eventId));
        after = content.cursor;
        if (content.status === "completed") break;
        expect(content.nextPollMs).toBe(0);
      }
      expect(read).toEqual(story.map(({ event }) => event.eventId));
    });

    it("does not name the end with a page that says nothing, while the end is still to come", async () => {
      const jobId = await start({ to: 1, log: "Slow today" });
      await ended(tidings, jobId);
      const story = await storyOf(tidings, jobId);
      const at = story.findIndex(({ event }) => event.type === "system.log");
      const after = story[at - 1]?.cursor;
      const { content } = await tool("get_job_events", { jobId, after, limit: 1 });
      expect(content).toMatchObject({ events: [{ type: "system.log" }], status: "running", nextPollMs: 0 });
    });

    it("waits for what comes, and ends at once when it does", async () => {
      const jobId = await start({ gate: `wait-${store}` });
      await expect
        .poll(async () => (await tool("get_job", { jobId })).content.percentage, PATIENTLY)
        .toBe(50);
      const { cursor: after } = (await tool("get_job", { jobId })).content;
      const waiting = tool("get_job_events", { jobId, after, waitSeconds: 25 });
      gate(`wait-${store}`).open();
      expect((await waiting).content.events.length).toBeGreaterThan(0);
    });

    it("does not wait for a job that has ended", async () => {
      const jobId = await start();
      await ended(tidings, jobId);
      const { cursor } = (await tool("get_job", { jobId })).content;
      const { content } = await tool("get_job_events", { jobId, after: cursor, waitSeconds: 25 });
      expect(content).toMatchObject({ events: [], status: "completed", truncated: false });
    });

    it("stops waiting when the request is canceled", async () => {
      const jobId = await start({ gate: `abort-${store}` });
      await expect
        .poll(async () => (await tool("get_job", { jobId })).content.percentage, PATIENTLY)
        .toBe(50);
      const { cursor } = (await tool("get_job", { jobId })).content;
      const stop = new AbortController();
      const waiting = connection.client.callTool(
        { name: "get_job_events", arguments: { jobId, after: cursor, waitSeconds: 25 } },
        { signal: stop.signal },
      );
      stop.abort();
      await expect(waiting).rejects.toThrow();
      gate(`abort-${store}`).open();
    });

    it.each([
      ["never issued", "nonsense"],
      ["of the right form", "AAAAAAAAAAAAAAAAAAAAAA"],
    ])("refuses a cursor %s as BAD_CURSOR", async (_, after) => {
      const jobId = await start();
      const { isError, content } = await tool("get_job_events", { jobId, after });
      expect(isError).toBe(true);
      expect(content.error).toMatchObject({ code: "BAD_CURSOR", retryable: false });
    });

    it("refuses another owner's cursor and a page cursor as BAD_CURSOR", async () => {
      const jobId = await start();
      const foreign = await tidings.head("somebody else");
      const page = tidings.sealPage("local", "anything", 1);
      for (const after of [foreign, page]) {
        const { content } = await tool("get_job_events", { jobId, after });
        expect(content.error.code).toBe("BAD_CURSOR");
      }
    });

    it.each([
      [{ limit: 0 }],
      [{ limit: 1001 }],
      [{ limit: 1.5 }],
      [{ waitSeconds: 26 }],
      [{ waitSeconds: -1 }],
    ])("refuses %j as BAD_INPUT", async (args) => {
      const jobId = await start();
      const { content } = await tool("get_job_events", { jobId, ...args });
      expect(content.error.code).toBe("BAD_INPUT");
    });

    it("is for apps only", async () => {
      const { tools } = await connection.client.listTools();
      const listed = tools.find(({ name }) => name === "get_job_events");
      expect(listed?._meta).toEqual({ ui: { visibility: ["app"] } });
    });
  });

  describe("cancel_job", () => {
    it("answers like get_job, with who canceled and why", async () => {
      const jobId = await start({ gate: `never-${store}` });
      const { content, isError } = await tool("cancel_job", { jobId, reason: "wrong file" });
      expect(isError).toBe(false);
      expect(content).toEqual((await tool("get_job", { jobId })).content);
      expect(content).toMatchObject({ status: "canceled", canceledBy: "user", reason: "wrong file" });
    });

    it("leaves an ended job as it ended, and a second cancel changes nothing", async () => {
      const jobId = await start();
      await ended(tidings, jobId);
      const before = (await tool("get_job", { jobId })).content;
      expect(before.status).toBe("completed");
      expect((await tool("cancel_job", { jobId })).content).toEqual(before);
      expect((await tool("cancel_job", { jobId, reason: "again" })).content).toEqual(before);
    });

    it("knows no unknown job", async () => {
      expect(await tool("cancel_job", { jobId: "count_nothing" })).toMatchObject(UNKNOWN);
    });
  });

  describe("retry_job", () => {
    it("starts an ended job again as a new one, and says so on both", async () => {
      const jobId = await start({ fail: true, correlationId: "run-3" });
      await ended(tidings, jobId);
      const { content } = await tool("retry_job", { jobId });
      expect(content).toEqual({ jobId: expect.any(String), status: "pending", cursor: expect.any(String) });
      expect(content.jobId).not.toBe(jobId);
      expect((await tool("get_job", { jobId: content.jobId })).content).toMatchObject({
        retryOf: jobId,
        correlationId: "run-3",
      });
      expect((await tool("get_job", { jobId })).content.retriedAs).toBe(content.jobId);
      expect((await tool("retry_job", { jobId })).content.jobId).toBe(content.jobId);
    });

    it("refuses before the end", async () => {
      const jobId = await start({ gate: `never-${store}` });
      const { isError, content } = await tool("retry_job", { jobId });
      expect(isError).toBe(true);
      expect(content.error).toMatchObject({ code: "JOB_NOT_ENDED", retryable: true });
    });

    it("knows no unknown job", async () => {
      expect(await tool("retry_job", { jobId: "count_nothing" })).toMatchObject(UNKNOWN);
    });
  });

  describe("list_my_jobs", () => {
    it("lists newest first, by page, with every job once", async () => {
      const started: string[] = [];
      for (let i = 0; i < 5; i += 1) started.push(await start());
      const listed: string[] = [];
      let cursor: string | undefined;
      do {
        const { content } = await tool("list_my_jobs", { limit: 2, ...(cursor && { cursor }) });
        listed.push(...content.jobs.map((job: { jobId: string }) => job.jobId));
        cursor = content.nextCursor;
      } while (cursor !== undefined);
      expect(listed).toEqual(started.toReversed());
    });

    it("narrows by status and correlationId", async () => {
      const mine = await start({ correlationId: "a" });
      const other = await start({ correlationId: "b", fail: true });
      await Promise.all([ended(tidings, mine), ended(tidings, other)]);
      const ids = async (args: Record<string, unknown>) =>
        (await tool("list_my_jobs", args)).content.jobs.map((job: { jobId: string }) => job.jobId);
      expect(await ids({ correlationId: "a" })).toEqual([mine]);
      expect(await ids({ status: "failed" })).toEqual([other]);
      expect(await ids({ status: "running" })).toEqual([]);
    });

    it("refuses what it cannot honour", async () => {
      expect((await tool("list_my_jobs", { cursor: "nonsense" })).content.error.code).toBe("BAD_CURSOR");
      expect((await tool("list_my_jobs", { status: "done" })).content.error.code).toBe("BAD_INPUT");
      expect((await tool("list_my_jobs", { limit: 101 })).content.error.code).toBe("BAD_INPUT");
    });
  });

  describe("the resources", () => {
    it("gives the snapshot under job://{jobId} and what the handler returned under its result", async () => {
      const jobId = await start();
      await ended(tidings, jobId);
      const read = async (uri: string) => {
        const { contents } = await connection.client.readResource({ uri });
        const [content] = contents;
        expect(content).toMatchObject({ uri, mimeType: "application/json" });
        return JSON.parse((content as { text: string }).text);
      };
      expect(await read(`job://${jobId}`)).toEqual((await tool("get_job", { jobId })).content);
      expect(await read(`job://${jobId}/result`)).toEqual({ counted: 4 });
    });

    it("has no result before the end, and none after a failure", async () => {
      const waiting = await start({ gate: `never-${store}` });
      await expect(connection.client.readResource({ uri: `job://${waiting}/result` })).rejects.toMatchObject({
        code: -32602,
        data: { code: "JOB_NOT_ENDED", retryable: true },
      });
      const failed = await start({ fail: true });
      await ended(tidings, failed);
      const uri = `job://${failed}/result`;
      await expect(connection.client.readResource({ uri })).rejects.toMatchObject({
        code: -32602,
        data: { uri },
      });
    });

    it.each(["job://count_nothing", "job://count_nothing/result"])("has no %s", async (uri) => {
      await expect(connection.client.readResource({ uri })).rejects.toMatchObject({
        code: -32602,
        data: { uri },
      });
    });
  });
});

describe("get_job_events, after old events were removed", () => {
  it("says so and gives a snapshot instead, never silence", async () => {
    const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
    const tidings = await createTidings({ store: engine, jobs: [count] });
    onTestFinished(() => tidings.close());
    const { client } = await connect(() => createCountServer(tidings));
    const { jobId, cursor } = (await call(client, "start_count")).content;
    await ended(tidings, jobId);
    await engine.prune({ keepEvents: 2 });
    const { content } = await call(client, "get_job_events", { jobId, after: cursor, waitSeconds: 25 });
    expect(content).toMatchObject({
      truncated: true,
      status: "completed",
      snapshot: { jobId, percentage: 100 },
    });
    expect(content.snapshot).toEqual((await call(client, "get_job", { jobId })).content);
    const next = await call(client, "get_job_events", { jobId, after: content.snapshot.cursor });
    expect(next.content).toMatchObject({ events: [], truncated: false });
  });
});

describe("get_job_events, after what came behind the end", () => {
  it("does not take the end back", async () => {
    const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
    const tidings = await createTidings({ store: engine, jobs: [count] });
    onTestFinished(() => tidings.close());
    const { client } = await connect(() => createCountServer(tidings));
    const { jobId } = await tidings.start(count, {});
    await ended(tidings, jobId);
    const { cursor: after } = await tidings.get("local", jobId);
    const line = { type: "system.log", level: "info", message: "Filed", source: "count" } as const;
    await engine.apply({ owner: "local", jobId, command: { type: "inform", events: [line, line] } });
    const { content } = await call(client, "get_job_events", { jobId, after, limit: 1 });
    expect(content).toMatchObject({ events: [{ message: "Filed" }], status: "completed", nextPollMs: 0 });
  });
});
