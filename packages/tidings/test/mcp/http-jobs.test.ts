import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import { readEvent } from "../../src/model/projection/read.ts";
import { openEvents } from "./http-reader.ts";
import type { World } from "./http-world.ts";
import { createGate, createWorld, failing, gated, gates, quick } from "./http-world.ts";

const STORY = ["job.created", "job.started", "job.progress", "job.progress", "job.progress", "job.completed"];

describe("plain HTTP", () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld();
  });
  afterAll(() => world.close());
  afterEach(() => {
    expect(world.errors).toEqual([]);
  });

  async function finished(): Promise<string> {
    const { jobId } = await world.tidings.start(quick, { steps: 2 });
    const reader = await openEvents(`${world.url}/jobs/${jobId}/events`);
    await reader.rest();
    return jobId;
  }

  const get = (path: string, init?: RequestInit) => fetch(world.url + path, init);

  it("GET /jobs/{jobId} answers with the snapshot", async () => {
    const jobId = await finished();
    const response = await get(`/jobs/${jobId}`);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.json()).toEqual(await world.tidings.get("local", jobId));
  });

  it("tells a whole story, each event under its type and cursor, and ends after the ending", async () => {
    const { jobId } = await world.tidings.start(quick, { steps: 2 });
    world.seen.length = 0;
    const reader = await openEvents(`${world.url}/jobs/${jobId}/events`);
    const frames = await reader.rest();
    expect(frames.map(({ event }) => event)).toEqual(STORY);
    const log = await world.tidings.read({ owner: "local", jobIds: [jobId] });
    expect(frames.map(({ id, data }) => ({ cursor: id, event: JSON.parse(data) }))).toEqual(log.events);
    for (const { event, data } of frames) {
      expect(readEvent(JSON.parse(data))).toMatchObject({ kind: "event", event: { type: event, jobId } });
    }
    expect(world.seen).toEqual([{ method: "GET", path: `/jobs/${jobId}/events`, rpc: undefined }]);
  });

  it("headers forbid every proxy to hold it back", async () => {
    const reader = await openEvents(`${world.url}/jobs/${await finished()}/events`);
    expect(reader.headers.get("content-type")).toBe("text/event-stream");
    expect(reader.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(reader.headers.get("x-accel-buffering")).toBe("no");
    await reader.rest();
  });

  it("goes on after any cursor of the story, by Last-Event-ID or by ?after=", async () => {
    const jobId = await finished();
    const { events } = await world.tidings.read({ owner: "local", jobIds: [jobId] });
    for (const [index, { cursor }] of events.slice(0, -1).entries()) {
      const later = events.slice(index + 1).map(({ cursor: id }) => id);
      const byHeader = await openEvents(`${world.url}/jobs/${jobId}/events`, {
        headers: { "Last-Event-ID": cursor },
      });
      expect((await byHeader.rest()).map(({ id }) => id)).toEqual(later);
      const byQuery = await openEvents(`${world.url}/jobs/${jobId}/events?after=${cursor}`);
      expect((await byQuery.rest()).map(({ id }) => id)).toEqual(later);
    }
  });

  it("the header wins over ?after=, because a browser repeats its first address", async () => {
    const jobId = await finished();
    const { events } = await world.tidings.read({ owner: "local", jobIds: [jobId] });
    const reader = await openEvents(`${world.url}/jobs/${jobId}/events?after=${events[0]?.cursor}`, {
      headers: { "Last-Event-ID": events.at(-2)?.cursor ?? "" },
    });
    expect((await reader.rest()).map(({ event }) => event)).toEqual(["job.completed"]);
  });

  it("a reconnect behind the end answers 204", async () => {
    const jobId = await finished();
    const { cursor } = await world.tidings.get("local", jobId);
    const response = await get(`/jobs/${jobId}/events`, { headers: { "Last-Event-ID": cursor } });
    expect(response.status).toBe(204);
    expect(await response.text()).toBe("");
  });

  it("the cursor that a start answers with tells the story from job.created on", async () => {
    const { jobId, cursor } = await world.tidings.start(quick, { steps: 2 });
    const reader = await openEvents(`${world.url}/jobs/${jobId}/events?after=${cursor}`);
    expect((await reader.rest()).map(({ event }) => event)).toEqual(STORY);
  });

  it("a failed job ends its stream with code and hint", async () => {
    const { jobId } = await world.tidings.start(failing, {});
    const frames = await (await openEvents(`${world.url}/jobs/${jobId}/events`)).rest();
    expect(JSON.parse(frames.at(-1)?.data ?? "")).toMatchObject({
      type: "job.failed",
      error: { code: "EMPTY_FILE", hint: "Choose another file.", retryable: false },
    });
  });

  it("a canceled job ends its stream", async () => {
    gates.set("cancel", createGate());
    const { jobId } = await world.tidings.start(gated, { gate: "cancel" });
    const reader = await openEvents(`${world.url}/jobs/${jobId}/events`);
    await reader.until(({ event }) => event === "job.progress");
    await world.tidings.cancel("local", jobId, { canceledBy: "a test", reason: "enough" });
    const frames = await reader.rest();
    expect(JSON.parse(frames.at(-1)?.data ?? "")).toMatchObject({
      type: "job.canceled",
      canceledBy: "a test",
      reason: "enough",
    });
  });

  it.each(["", "abc", "0", "%00", "AAAAAAAAAAAAAAAAAAAAAA", "%F0%9F", "x".repeat(5000)])(
    "the cursor %j is BAD_CURSOR, as JSON",
    async (cursor) => {
      const jobId = await finished();
      for (const path of [`/jobs/${jobId}/events`, "/events"]) {
        const response = await get(`${path}?after=${cursor}`);
        expect(response.status).toBe(400);
        expect(await response.json()).toEqual({
          error: {
            code: "BAD_CURSOR",
            message: expect.any(String),
            hint: expect.any(String),
            retryable: false,
          },
        });
      }
    },
  );

  it("another owner's cursor, and one with a changed character, are BAD_CURSOR", async () => {
    const jobId = await finished();
    const { cursor } = await world.tidings.get("local", jobId);
    const foreign = await world.tidings.head("somebody else");
    const changed = (cursor.startsWith("A") ? "B" : "A") + cursor.slice(1);
    for (const bad of [foreign, changed]) {
      const response = await get(`/jobs/${jobId}/events`, { headers: { "Last-Event-ID": bad } });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { code: "BAD_CURSOR" } });
    }
  });

  it("unknown, foreign and impossible ids are one and the same JOB_NOT_FOUND", async () => {
    const { jobId: foreign } = await world.tidings.start(quick, { steps: 1 }, { owner: "somebody else" });
    const ids = [
      foreign,
      "quick_unknown",
      "..%2f..%2fetc",
      "%E0%A4%A",
      "%00",
      "%0d%0a",
      "..",
      "__proto__",
      "%",
    ];
    const answers = new Set<string>();
    for (const id of ids) {
      for (const path of [`/jobs/${id}`, `/jobs/${id}/events`]) {
        const response = await rawGet(path);
        expect(response, path).toMatch(/^HTTP\/1\.1 404 /);
        answers.add(response.slice(response.indexOf("\r\n\r\n")));
      }
    }
    expect([...answers]).toHaveLength(1);
    expect([...answers][0]).toContain('"code":"JOB_NOT_FOUND"');
  });

  /** `fetch` tidies paths; a raw request does not. */
  async function rawGet(path: string): Promise<string> {
    const { request } = await import("node:http");
    return new Promise((resolve, reject) => {
      request({ port: world.port, path }, async (res) => {
        let text = `HTTP/1.1 ${res.statusCode} \r\n\r\n`;
        for await (const chunk of res) text += chunk;
        resolve(text);
      })
        .on("error", reject)
        .end();
    });
  }

  it("paths that are not ours are left alone", async () => {
    for (const path of ["/", "/jobs", "/jobs/", "/jobs/a/b", "/jobs/a/events/c", "/mcp/x", "/eventsx"]) {
      const response = await get(path);
      expect([path, response.status, await response.text()]).toEqual([path, 404, "not ours"]);
    }
  });

  it("HEAD tells the headers, OPTIONS the methods, and other methods are 405 with Allow", async () => {
    const jobId = await finished();
    const head = await get(`/jobs/${jobId}`, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const headEvents = await get(`/jobs/${jobId}/events`, { method: "HEAD" });
    expect([headEvents.status, headEvents.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
    const headLog = await get("/events", { method: "HEAD" });
    expect([headLog.status, await headLog.text()]).toEqual([200, ""]);
    const preflight = await get(`/jobs/${jobId}`, { method: "OPTIONS" });
    expect([preflight.status, preflight.headers.get("allow")]).toEqual([204, "GET, HEAD, OPTIONS"]);
    const posted = await get(`/jobs/${jobId}/events`, { method: "POST", body: "{}" });
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    expect(await posted.json()).toMatchObject({ error: { code: "METHOD_NOT_ALLOWED" } });
  });

  describe("GET /events, the owner's whole log", () => {
    it("tells what happens from now on, and nothing of other owners", async () => {
      await finished();
      const reader = await openEvents(`${world.url}/events`);
      await world.tidings.start(quick, { steps: 1 }, { owner: "somebody else" });
      const { jobId } = await world.tidings.start(quick, { steps: 2 });
      const frames = await reader.until(({ event }) => event === "job.completed");
      expect(new Set(frames.map(({ data }) => JSON.parse(data).jobId))).toEqual(new Set([jobId]));
      expect(frames[0]?.event).toBe("job.created");
      reader.close();
    });

    it("?resourceId= narrows to one resource", async () => {
      const reader = await openEvents(`${world.url}/events?resourceId=resource:product-feed`);
      await finished();
      for (const resourceId of ["resource:other", "resource:product-feed"]) {
        await world.tidings.publish(
          { type: "resource.updated", resourceId, changeType: "snapshot_ready" },
          { resourceId },
        );
      }
      const frame = await reader.next();
      expect(frame?.event).toBe("resource.updated");
      expect(JSON.parse(frame?.data ?? "")).toMatchObject({
        resourceId: "resource:product-feed",
        changeType: "snapshot_ready",
      });
      reader.close();
    });

    it("gives its position first, so that a drop before any event loses nothing", async () => {
      const reader = await openEvents(`${world.url}/events`);
      const position = await world.tidings.head("local");
      const { jobId } = await world.tidings.start(quick, { steps: 1 });
      await reader.next();
      reader.close();
      const id = /^id: (\S+)\n\n/.exec(reader.raw)?.[1] ?? "";
      expect(id).toBe(position);
      const again = await openEvents(`${world.url}/events`, { headers: { "Last-Event-ID": id } });
      const frames = await again.until(({ event }) => event === "job.completed");
      expect(JSON.parse(frames[0]?.data ?? "")).toMatchObject({ type: "job.created", jobId });
      again.close();
    });
  });

  it("replay follows the order of publishing, although the clock stands still or is set back (FC-13)", async () => {
    const clock = createManualClock();
    const frozen = await createWorld({ tidingsClock: clock });
    try {
      const { jobId } = await frozen.tidings.start(quick, { steps: 1, lines: 100 });
      const address = `${frozen.url}/jobs/${jobId}/events`;
      const live = await openEvents(address);
      await live.until(({ data }) => JSON.parse(data).message === "line 50");
      clock.step(-3_600_000);
      const all = [...(await (await openEvents(address)).rest())];
      expect(all.length).toBeGreaterThan(100);
      expect(all.map(({ data }) => JSON.parse(data).seq)).toEqual(all.map((_, index) => index + 1));
      for (const [index, { id }] of all.slice(0, -1).entries()) {
        const reader = await openEvents(address, { headers: { "Last-Event-ID": id ?? "" } });
        expect((await reader.rest()).map((frame) => frame.id)).toEqual(
          all.slice(index + 1).map((frame) => frame.id),
        );
      }
    } finally {
      await frozen.close();
    }
  });

  describe("a cursor older than what is kept", () => {
    it("of a story with something left: a snapshot first, then what is kept", async () => {
      const { jobId, cursor } = await world.tidings.start(quick, { steps: 2 });
      await (await openEvents(`${world.url}/jobs/${jobId}/events`)).rest();
      await world.engine.prune({ keepEvents: 2 });
      const frames = await (await openEvents(`${world.url}/jobs/${jobId}/events?after=${cursor}`)).rest();
      expect(frames.map(({ event }) => event)).toEqual(["snapshot", "job.progress", "job.completed"]);
      expect(JSON.parse(frames[0]?.data ?? "")).toEqual(await world.tidings.get("local", jobId));
    });

    it("of a story with nothing left: a snapshot, and a reconnect behind it answers 204", async () => {
      const { jobId, cursor } = await world.tidings.start(quick, { steps: 2 });
      await (await openEvents(`${world.url}/jobs/${jobId}/events`)).rest();
      await world.engine.prune({ keepEvents: 0 });
      const address = `${world.url}/jobs/${jobId}/events`;
      for (const from of [address, `${address}?after=${cursor}`]) {
        const frames = await (await openEvents(from)).rest();
        expect(frames.map(({ event }) => event)).toEqual(["snapshot"]);
        const again = await get(`/jobs/${jobId}/events`, {
          headers: { "Last-Event-ID": frames[0]?.id ?? "" },
        });
        expect(again.status).toBe(204);
      }
    });

    it("of the whole log: a snapshot of the newest jobs first", async () => {
      const before = await world.tidings.head("local");
      const jobId = await finished();
      await world.engine.prune({ keepEvents: 1 });
      const reader = await openEvents(`${world.url}/events?after=${before}`);
      const first = await reader.next();
      expect(first?.event).toBe("snapshot");
      expect(JSON.parse(first?.data ?? "").jobs[0]).toEqual(await world.tidings.get("local", jobId));
      expect((await reader.next())?.event).toBe("job.completed");
      reader.close();
    });
  });
});
