/**
 * The same job, followed by everybody at once: the official client in both generations, SDK v1, stdio, server-sent
 * events and polling. One story, the same event ids, and no path borrows from another.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ServerProcess } from "../../src/demo/server-process.ts";
import { startServer } from "../../src/demo/server-process.ts";
import type { PathStory, Seen } from "./paths.ts";
import {
  collector,
  connectModern,
  connectSession,
  connectV1,
  isEnding,
  openStdio,
  readSse,
} from "./paths.ts";

const START = "start_bulk_gift_analysis";

describe("one job, every path", () => {
  let folder: string;
  let server: ServerProcess;
  let store: string;
  const stories: Record<string, PathStory> = {};
  let log: readonly Seen[] = [];
  let jobId: string;
  let cursor: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
    store = `sqlite:${join(folder, "giftgenius.db")}`;
    server = await startServer({ TIDINGS_STORE: store, PORT: "0" });
    const { url } = server;
    const file = await readFile(new URL("../../examples/employees-2000.csv", import.meta.url));
    const uploaded = await fetch(`${url}/uploads`, { method: "POST", body: file });
    const { uploadId } = (await uploaded.json()) as { uploadId: string };
    const call = {
      name: START,
      arguments: { uploadId, defaultBudget: 40, idempotencyKey: "one", correlationId: "run-7" },
    };

    // Listens that begin before the job does, so that they see it from its birth.
    const byFilter = collector();
    const filtering = await connectModern(url);
    filtering.fallbackNotificationHandler = async (message) => byFilter.take(message);
    const listening = await filtering.listen({ "dev.tidings/jobs": { correlationId: "run-7" } } as never);

    const bySession = collector();
    const session = await connectSession(url);
    session.fallbackNotificationHandler = async (message) => bySession.take(message);

    const byV1 = collector();
    const v1 = await connectV1(url);
    v1.fallbackNotificationHandler = async (message) => byV1.take(message);

    const byStdio = collector();
    const stdio = openStdio({ TIDINGS_STORE: store });
    stdio.onNotification(byStdio.take);
    await stdio.request("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "pipe", version: "1.0.0" },
    });
    stdio.notify("notifications/initialized");

    // The same key: everybody starts the same job.
    const answers = [
      (await session.callTool(call)).structuredContent,
      (await v1.callTool(call)).structuredContent,
      ((await stdio.request("tools/call", call)).result as { structuredContent: unknown }).structuredContent,
      (await filtering.callTool(call)).structuredContent,
    ] as { jobId: string; cursor: string }[];
    expect(new Set(answers.map((answer) => answer.jobId)).size).toBe(1);
    ({ jobId, cursor } = answers[0] as { jobId: string; cursor: string });

    // The stock subscription sees what comes from now on.
    const byUpdates = collector();
    const stock = await connectModern(url);
    stock.setNotificationHandler("notifications/resources/updated", (message) => byUpdates.take(message));
    const subscription = await stock.listen({ resourceSubscriptions: [`job://${jobId}`] });

    const [sse, polled] = await Promise.all([readSse(`${url}/jobs/${jobId}/events`), poll(filtering, jobId)]);
    stories.sse = {
      events: sse.frames.map(({ data }) => JSON.parse(data)),
      methods: sse.frames.map(({ event }) => event),
    };
    stories.polling = { events: polled, methods: [] };
    stories.filter = await byFilter.story;
    stories.session = await bySession.story;
    stories.v1 = await byV1.story;
    stories.stdio = await byStdio.story;
    // The job may have ended before the stock subscription began; then it has nothing to say.
    const ended = polled.at(-1)?.eventId;
    if (ended !== undefined) stories.stock = await Promise.race([byUpdates.story, nothingLeft(stock, jobId)]);

    log = polled;
    await Promise.all([listening.close(), subscription.close()]);
    await Promise.all([filtering.close(), session.close(), v1.close(), stock.close()]);
    expect(await stdio.close()).toBe(0);
    expect(stdio.lines.every((line) => JSON.parse(line).jsonrpc === "2.0")).toBe(true);
  });

  afterAll(async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test("the story is whole: created, started with a summary, four stage ends, completed", () => {
    const types = log.map(({ type }) => type);
    expect(types.slice(0, 2)).toEqual(["job.created", "job.started"]);
    expect(log[1]?.summary).toEqual(expect.stringContaining("gift"));
    expect(types.at(-1)).toBe("job.completed");
    const ends = log.filter(({ percentage }) => [10, 40, 70, 100].includes(percentage as number));
    expect(ends.map(({ percentage, stageKey }) => [percentage, stageKey])).toEqual([
      [10, "parse"],
      [40, "extract_interests"],
      [70, "match"],
      [100, "assemble"],
    ]);
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
    expect(log.every(({ correlationId }) => correlationId === "run-7")).toBe(true);
  });

  test.each(["filter", "session", "v1", "stdio", "sse", "polling"])(
    "%s tells it with the same event ids, in order",
    (path) => {
      expect(stories[path]?.events.map(({ eventId }) => eventId)).toEqual(log.map(({ eventId }) => eventId));
    },
  );

  test("push paths carried notifications of the jobs' own methods, and nothing else carried an event", () => {
    for (const path of ["filter", "session", "v1", "stdio"]) {
      expect(new Set(stories[path]?.methods)).toEqual(
        new Set(log.map(({ type }) => `notifications/${type.replace(".", "/")}`)),
      );
    }
    expect(stories.sse?.methods).toEqual(log.map(({ type }) => type));
  });

  test("the stock subscription carried the rest of the story as resource updates only", () => {
    const seen = stories.stock?.events.map(({ eventId }) => eventId) ?? [];
    expect(seen).toEqual(log.map(({ eventId }) => eventId).slice(log.length - seen.length));
    expect(new Set(stories.stock?.methods)).toEqual(
      new Set(seen.length === 0 ? [] : ["notifications/resources/updated"]),
    );
  });

  test("the cursor that start answered with replays everything on SSE; behind the end there is 204", async () => {
    const all = await readSse(`${server.url}/jobs/${jobId}/events?after=${cursor}`);
    expect(all.frames.map(({ data }) => (JSON.parse(data) as Seen).eventId)).toEqual(
      log.map(({ eventId }) => eventId),
    );
    const last = all.frames.at(-1)?.id ?? "";
    const third = all.frames[2]?.id ?? "";
    expect((await readSse(`${server.url}/jobs/${jobId}/events`, { "last-event-id": last })).status).toBe(204);
    const rest = await readSse(`${server.url}/jobs/${jobId}/events`, { "last-event-id": third });
    expect(rest.frames.map(({ id }) => id)).toEqual(all.frames.slice(3).map(({ id }) => id));
  });
});

type Caller = Awaited<ReturnType<typeof connectModern>>;

async function poll(client: Caller, jobId: string): Promise<Seen[]> {
  const events: Seen[] = [];
  let after: string | undefined;
  while (!events.some(({ type }) => isEnding(type))) {
    const { structuredContent } = await client.callTool({
      name: "get_job_events",
      arguments: { jobId, waitSeconds: 5, ...(after === undefined ? {} : { after }) },
    });
    const page = structuredContent as { events: Seen[]; cursor: string };
    events.push(...page.events);
    after = page.cursor;
  }
  return events;
}

/** Resolves once the job has ended and a round trip behind it brought nothing more. */
async function nothingLeft(client: Caller, jobId: string): Promise<PathStory> {
  await client.callTool({ name: "get_job", arguments: { jobId } });
  return { events: [], methods: [] };
}
