/** What a client was promised when its stream opened, it gets: from the first event on, in every round. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Tidings } from "../../src/runtime/tidings.ts";
import type { Message } from "./http-mcp.ts";
import { callTool, initialize, listen, openStream } from "./http-mcp.ts";
import { eventOf, isEnding, openEvents } from "./http-reader.ts";
import type { Gate, World } from "./http-world.ts";
import { createGate, createWorld, quick } from "./http-world.ts";

const ROUNDS = 200;
const TIMEOUT_MS = 120_000;
const JOBS = "dev.tidings/jobs";
const STORY = ["job.created", "job.started", "job.progress", "job.progress", "job.completed"];

const endsStory = (message: Message) => isEnding(eventOf(message).event.type);
const typesOf = (messages: readonly Message[]) => messages.map((message) => eventOf(message).event.type);

describe.each(["memory", "sqlite"])("first events, just after opening, over %s (FC-16)", (kind) => {
  let world: World;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tidings-"));
    world = await createWorld({ store: kind === "memory" ? "memory:" : `sqlite:${join(folder, "jobs.db")}` });
  });
  afterAll(async () => {
    await world.close();
    await rm(folder, { recursive: true });
  });
  afterEach(() => {
    expect(world.errors).toEqual([]);
  });

  it(`listen: ${ROUNDS} times, a job started as soon as the headers are seen`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const listening = await listen(world.url, { [JOBS]: { correlationId: `listen-${round}` } });
      await world.tidings.start(quick, { steps: 1 }, { correlationId: `listen-${round}` });
      expect((await listening.next())?.method).toBe("notifications/subscriptions/acknowledged");
      expect(typesOf(await listening.until(endsStory))).toEqual(STORY);
      listening.reader.close();
    }
  });

  it(`GET stream of a session: ${ROUNDS} times, a job started as soon as the headers are seen`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    const session = await initialize(world.url);
    for (let round = 0; round < ROUNDS; round++) {
      const stream = await openStream(world.url, session);
      await callTool(world.url, session, "start_quick", { steps: 1 });
      expect(typesOf(await stream.until(endsStory))).toEqual(STORY);
      stream.reader.close();
    }
  });

  it(`server-sent events: ${ROUNDS} times, of a job and of the whole log`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const log = await openEvents(`${world.url}/events`);
      const { jobId } = await world.tidings.start(quick, { steps: 1 });
      const story = await openEvents(`${world.url}/jobs/${jobId}/events`);
      expect((await story.rest()).map(({ event }) => event)).toEqual(STORY);
      const frames = await log.until(({ event }) => isEnding(event));
      expect(frames.map(({ event }) => event)).toEqual(STORY);
      log.close();
    }
  });
});

describe("a position is taken before the stream opens (FC-16)", () => {
  it("what happens before the log is first read for the stream is told all the same", async () => {
    const gate = createGate();
    const late = (tidings: Tidings): Tidings => ({
      ...tidings,
      async *tail(request) {
        await gate.opened;
        yield* tidings.tail(request);
      },
    });
    const world = await createWorld({ wrap: late });
    const resource = "resource:product-feed";
    const listening = await listen(world.url, { [JOBS]: {} });
    const updates = await listen(world.url, { resourceSubscriptions: [resource] });
    const log = await openEvents(`${world.url}/events`);
    const event = { type: "resource.updated", resourceId: resource, changeType: "snapshot_ready" } as const;
    const { event: published } = await world.tidings.publish(event, {});
    gate.open();
    for (const stream of [listening, updates]) {
      expect((await stream.next())?.method).toBe("notifications/subscriptions/acknowledged");
      expect(eventOf(await stream.next()).event).toEqual(published);
      stream.reader.close();
    }
    expect(JSON.parse((await log.next())?.data ?? "")).toEqual(published);
    log.close();
    await world.close();
  });
});

describe("between what was stored and what comes (FC-15)", () => {
  it("an event that is published while the backlog is being read arrives, and so does the ending", async () => {
    let hold: Gate | undefined;
    let reading: Gate | undefined;
    const slow = (tidings: Tidings): Tidings => ({
      ...tidings,
      async read(request) {
        const page = await tidings.read(request);
        reading?.open();
        await hold?.opened;
        return page;
      },
    });
    const world = await createWorld({ wrap: slow });
    hold = createGate();
    reading = createGate();
    const before = await world.tidings.head("local");
    const { jobId } = await world.tidings.start(quick, { steps: 1 });
    const opening = openEvents(`${world.url}/jobs/${jobId}/events?after=${before}`);
    await reading.opened;
    for await (const item of world.tidings.tail({
      owner: "local",
      jobIds: [jobId],
      signal: new AbortController().signal,
    })) {
      if (item.kind === "event" && isEnding(item.event.type)) break;
    }
    hold.open();
    const frames = await (await opening).rest();
    expect(frames.map(({ event }) => event)).toEqual(STORY);
    await world.close();
  });

  it("each subscriber goes by its own cursor, however they interleave", async () => {
    const world = await createWorld();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat({ max: 6 }), { minLength: 1, maxLength: 5 }), async (positions) => {
        const { jobId, cursor } = await world.tidings.start(quick, { steps: 1, lines: 3 });
        const address = `${world.url}/jobs/${jobId}/events`;
        const seqs = await Promise.all(
          positions.map(async (position) => {
            // Reads some, leaves, and goes on where it was.
            const first = await openEvents(`${address}?after=${cursor}`);
            const taken: { id: string | undefined; data: string }[] = [];
            while (taken.length < position) {
              const frame = await first.next();
              if (frame === undefined) break;
              taken.push(frame);
            }
            first.close();
            const again = await openEvents(address, {
              headers: { "Last-Event-ID": taken.at(-1)?.id ?? cursor },
            });
            taken.push(...(await again.rest()));
            return taken.map(({ data }) => JSON.parse(data).seq);
          }),
        );
        for (const seq of seqs) expect(seq).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      }),
      { numRuns: 60 },
    );
    expect(world.errors).toEqual([]);
    await world.close();
  });
});
