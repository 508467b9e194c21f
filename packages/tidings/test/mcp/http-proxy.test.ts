/** Streams behind a proxy that does what proxies do (FC-20). */
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { createGzip } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callTool, initialize, listen, openStream } from "./http-mcp.ts";
import { eventOf, isEnding, openEvents } from "./http-reader.ts";
import type { World } from "./http-world.ts";
import { createGate, createWorld, gated, gates } from "./http-world.ts";

const HEARTBEAT_MS = 100;
const SILENCE_MS = 1_500;
/** More heartbeats than fit into the silence that the proxy allows. */
const BEATS = 2 + SILENCE_MS / HEARTBEAT_MS;

/** Holds headers back until the first byte of the body, cuts silent answers, and compresses whatever allows it. */
async function startProxy(target: number): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer((req, res) => {
    const headers = { ...req.headers, host: `127.0.0.1:${target}` };
    const upstream = request({ port: target, path: req.url, method: req.method, headers }, (answer) => {
      const cut = () => {
        answer.destroy();
        res.destroy();
      };
      let silence = setTimeout(cut, SILENCE_MS);
      const mayCompress = !/no-transform/.test(answer.headers["cache-control"] ?? "");
      const gzip = mayCompress ? createGzip() : undefined;
      gzip?.pipe(res);
      const open = () => {
        if (res.headersSent) return;
        res.writeHead(answer.statusCode ?? 502, {
          ...answer.headers,
          ...(gzip === undefined ? {} : { "content-encoding": "gzip" }),
        });
      };
      answer.on("data", (chunk) => {
        clearTimeout(silence);
        silence = setTimeout(cut, SILENCE_MS);
        open();
        (gzip ?? res).write(chunk);
      });
      answer.on("end", () => {
        clearTimeout(silence);
        open();
        (gzip ?? res).end();
      });
      answer.on("error", () => res.destroy());
      res.on("close", () => {
        clearTimeout(silence);
        upstream.destroy();
      });
    });
    upstream.on("error", () => res.destroy());
    req.pipe(upstream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

describe("behind a proxy that holds headers, cuts silence and compresses", () => {
  let world: World;
  let proxy: Awaited<ReturnType<typeof startProxy>>;
  beforeAll(async () => {
    world = await createWorld({ heartbeatMs: HEARTBEAT_MS });
    proxy = await startProxy(world.port);
  });
  afterAll(async () => {
    await proxy.close();
    await world.close();
  });

  it("a job's event stream outlives a long silence, and heartbeats change nothing", async () => {
    gates.set("sse", createGate());
    const { jobId } = await world.tidings.start(gated, { gate: "sse" });
    const reader = await openEvents(`${proxy.url}/jobs/${jobId}/events`);
    expect(reader.headers.get("content-encoding")).toBeNull();
    expect(await reader.untilComments(BEATS)).toBe(true);
    gates.get("sse")?.open();
    const frames = await reader.rest();
    expect(frames.map(({ data }) => JSON.parse(data).seq)).toEqual(frames.map((_, index) => index + 1));
    expect(frames.at(-1)?.event).toBe("job.completed");
    expect(reader.raw).not.toMatch(/heartbeat/);
  });

  it("the first byte of every stream leaves at once, without any event or heartbeat", async () => {
    const quiet = await createWorld({ heartbeatMs: 3_600_000 });
    const behind = await startProxy(quiet.port);
    gates.set("quiet", createGate());
    const session = await initialize(quiet.url);
    const { jobId } = await quiet.tidings.start(gated, { gate: "quiet" });
    const { cursor } = await quiet.tidings.get("local", jobId);
    const log = await openEvents(`${behind.url}/events`);
    const story = await openEvents(`${behind.url}/jobs/${jobId}/events?after=${cursor}`);
    const stream = await openStream(behind.url, session);
    const listening = await listen(behind.url, { resourceSubscriptions: ["resource:x"] });
    for (const reader of [log, story, stream.reader, listening.reader]) {
      expect(reader.status).toBe(200);
      expect(reader.headers.get("cache-control")).toMatch(/no-transform/);
      expect(reader.headers.get("x-accel-buffering")).toBe("no");
      reader.close();
    }
    await behind.close();
    await quiet.close();
  });

  it("the GET stream of a session outlives a long silence", async () => {
    gates.set("session", createGate());
    const session = await initialize(world.url);
    const stream = await openStream(proxy.url, session);
    await callTool(world.url, session, "start_gated", { gate: "session" });
    expect(await stream.reader.untilComments(BEATS)).toBe(true);
    gates.get("session")?.open();
    const told = await stream.until((message) => isEnding(eventOf(message).event.type));
    expect(eventOf(told.at(-1)).event.type).toBe("job.completed");
    stream.reader.close();
  });

  it("a listen outlives a long silence, although nobody answers anything", async () => {
    gates.set("listen", createGate());
    const { jobId } = await world.tidings.start(gated, { gate: "listen" });
    const listening = await listen(proxy.url, { resourceSubscriptions: [`job://${jobId}`] });
    expect(await listening.reader.untilComments(BEATS)).toBe(true);
    expect((await listening.next())?.params).toMatchObject({
      notifications: { resourceSubscriptions: [`job://${jobId}`] },
    });
    gates.get("listen")?.open();
    expect(eventOf(await listening.next()).event.type).toBe("job.progress");
    listening.reader.close();
  });
});
