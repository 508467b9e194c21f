/** Streams of 2025 sessions that broke, and go on by `Last-Event-ID`. */
import { McpServer } from "@modelcontextprotocol/server";
import type { Tidings } from "tidings";
import { registerJob } from "tidings/mcp";
import { afterEach, describe, expect, it } from "vitest";
import { systemRandom } from "../../src/engine/system-clock.ts";
import { createSessionReplay } from "../../src/mcp/server/session-replay.ts";
import { callTool, initialize, post } from "./http-mcp.ts";
import { type Frame, openEvents, type Reader, readEvents } from "./http-reader.ts";
import { createGate, createWorld, type Gate, quick, type World } from "./http-world.ts";

let world: World | undefined;
afterEach(() => world?.close());

const bob = { Authorization: "Bearer bob" };

/** A server with a tool that says so many lines on the answer's stream, each after it was let. */
async function openWorld(steps: ReadonlyMap<number, Gate> = new Map()): Promise<World> {
  let tidings: Tidings | undefined;
  const server = () => {
    const made = new McpServer({ name: "talks", version: "1.0.0" });
    if (tidings !== undefined) registerJob(made, tidings, quick, { tool: "start_quick" });
    made.registerTool("talk", {}, async (context) => {
      for (let line = 1; line <= 6; line += 1) {
        await steps.get(line)?.opened;
        await context.mcpReq.notify({ method: "notifications/talk", params: { line } });
      }
      return { content: [{ type: "text", text: "that was all" }] };
    });
    return made;
  };
  const opened = await createWorld({ server });
  tidings = opened.tidings;
  world = opened;
  return opened;
}

async function openGet(url: string, session: string, headers: Record<string, string> = {}): Promise<Reader> {
  return openEvents(`${url}/mcp`, {
    headers: { Accept: "text/event-stream", "Mcp-Session-Id": session, ...headers },
  });
}

async function call(
  url: string,
  session: string,
  name: string,
  args = {},
  signal?: AbortSignal,
): Promise<Reader> {
  const body = { jsonrpc: "2.0", id: 7, method: "tools/call", params: { name, arguments: args } };
  const headers = { "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25" };
  return readEvents(await post(url, body, headers, signal ?? null));
}

const lineOf = ({ data }: Frame): unknown =>
  data === "" ? "primed" : (JSON.parse(data).params?.line ?? JSON.parse(data).id);

async function statusOf(url: string, session: string, id: string, headers: Record<string, string> = {}) {
  const answer = await fetch(`${url}/mcp`, {
    headers: { Accept: "text/event-stream", "Mcp-Session-Id": session, "Last-Event-ID": id, ...headers },
  });
  return { status: answer.status, body: answer.status === 200 ? "a stream" : await answer.text() };
}

describe("the answer of a call", () => {
  it("FC-09, FC-35: goes on behind the last id when its stream broke in the middle, and the call was never stopped", async () => {
    const third = createGate();
    const { url } = await openWorld(new Map([[4, third]]));
    const session = await initialize(url);
    const get = await openGet(url, session);
    const broken = new AbortController();
    const stream = await call(url, session, "talk", {}, broken.signal);
    const seen: Frame[] = [];
    while (seen.length < 4) seen.push((await stream.next()) as Frame);
    expect(seen.map(lineOf)).toEqual(["primed", 1, 2, 3]);
    expect(new Set(seen.map(({ id }) => id)).size).toBe(4);
    broken.abort();
    // Another stream of the session goes on meanwhile.
    await callTool(url, session, "start_quick", { steps: 3 });
    const resumed = await openGet(url, session, { "Last-Event-ID": String(seen[1]?.id) });
    third.open();
    const rest: Frame[] = [];
    while (rest.at(-1) === undefined || lineOf(rest.at(-1) as Frame) !== 7)
      rest.push((await resumed.next()) as Frame);
    expect(rest.map(lineOf).filter((line) => line !== "primed")).toEqual([2, 3, 4, 5, 6, 7]);
    get.close();
    resumed.close();
  });

  it("can be had again after it has ended", async () => {
    const { url } = await openWorld();
    const session = await initialize(url);
    const frames = await (await call(url, session, "talk")).rest();
    const resumed = await openGet(url, session, { "Last-Event-ID": String(frames[0]?.id) });
    expect((await resumed.rest()).map(lineOf)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });
});

describe("the GET stream", () => {
  it("sends again what a reader did not get, in order, and then what is new", async () => {
    const { url, tidings } = await openWorld();
    const session = await initialize(url);
    const first = await openGet(url, session);
    const priming = (await first.next()) as Frame;
    expect(priming).toMatchObject({ data: "", id: expect.stringMatching(/^[!-~]+$/) });
    expect(first.raw).toContain("retry: ");
    const { jobId } = await callTool(url, session, "start_quick", { steps: 4 });
    const told = await first.until(({ data }) => data.includes("job/completed"));
    first.close();
    const resumed = await openGet(url, session, { "Last-Event-ID": String(told[0]?.id) });
    await resumed.next();
    const again = await resumed.until(({ data }) => data.includes("job/completed"));
    expect(again).toEqual(told.slice(1));
    const { jobId: next } = await callTool(url, session, "start_quick", { steps: 1 });
    expect(next).not.toBe(jobId);
    const live = await resumed.until(({ data }) => data.includes("job/completed"));
    expect(live.every(({ data }) => data.includes(String(next)))).toBe(true);
    const { events } = await tidings.read({ owner: "local", jobIds: [String(next)], limit: 100 });
    expect(live).toHaveLength(events.length);
    resumed.close();
  });

  it.each(["before", "after"] as const)(
    "FC-12: a dead one that closes %s its successor hears something leaves it alone",
    async (when) => {
      const { url } = await openWorld();
      const session = await initialize(url);
      const dead = new AbortController();
      const frozen = await fetch(`${url}/mcp`, {
        headers: { Accept: "text/event-stream", "Mcp-Session-Id": session },
        signal: dead.signal,
      });
      const successor = await openGet(url, session);
      await successor.next();
      if (when === "before") dead.abort();
      await callTool(url, session, "start_quick", { steps: 1 });
      await successor.until(({ data }) => data.includes("job/completed"));
      if (when === "after") dead.abort();
      await callTool(url, session, "start_quick", { steps: 1 });
      expect((await successor.until(({ data }) => data.includes("job/completed"))).length).toBeGreaterThan(1);
      void frozen.body?.cancel().catch(() => {});
      successor.close();
    },
  );

  it("FC-18: is primed only for clients that know how", async () => {
    const { url } = await openWorld();
    for (const protocolVersion of ["2025-03-26", "2025-06-18", "2025-11-25"]) {
      const params = { protocolVersion, capabilities: {}, clientInfo: { name: "old", version: "1" } };
      const begun = await post(url, { jsonrpc: "2.0", id: 0, method: "initialize", params });
      const session = String(begun.headers.get("mcp-session-id"));
      await begun.text();
      await (
        await post(
          url,
          { jsonrpc: "2.0", method: "notifications/initialized" },
          { "Mcp-Session-Id": session },
        )
      ).text();
      const stream = await openGet(url, session, { "MCP-Protocol-Version": protocolVersion });
      await callTool(url, session, "start_quick", { steps: 1 }, { "MCP-Protocol-Version": protocolVersion });
      const frames = await stream.until(({ data }) => data.includes("job/completed"));
      expect(frames.filter(({ data }) => data === "")).toHaveLength(protocolVersion === "2025-11-25" ? 1 : 0);
      stream.close();
    }
  });
});

describe("FC-10, security 4: an id that is not of this session", () => {
  it("is answered alike, whether it is foreign, guessed, changed or no id at all, and no byte of a stream is sent", async () => {
    const { url } = await openWorld();
    const [mine, other] = [await initialize(url), await initialize(url)];
    const foreign = await initialize(url, bob);
    const ids: string[] = [];
    for (const [session, headers] of [
      [other, {}],
      [foreign, bob],
    ] as const) {
      const stream = await openGet(url, session, headers);
      ids.push(String((await stream.next())?.id));
      stream.close();
    }
    const own = await openGet(url, mine);
    const ownId = String((await own.next())?.id);
    own.close();
    const changed = `${ownId.slice(0, -1)}${ownId.endsWith("A") ? "B" : "A"}`;
    const never = await statusOf(url, mine, "AAAAAAAAAAAAAAAAAAAAAA");
    expect(never.status).toBe(400);
    for (const id of [...ids, changed, "0", "1", "GET", "_GET_stream", "__proto__", "x".repeat(4_000)]) {
      expect(await statusOf(url, mine, id)).toEqual(never);
    }
    // With somebody else's session the session itself is not there.
    expect((await statusOf(url, foreign, ids[1] ?? "")).status).toBe(404);
    expect((await statusOf(url, mine, ownId)).status).toBe(200);
  });
});

describe("what is kept for it", () => {
  const message = (text: string) => ({
    jsonrpc: "2.0" as const,
    method: "notifications/x",
    params: { text },
  });

  it("FC-17: is bounded by bytes and by count, however much is said; whoever's id is gone is told so", () => {
    const replay = createSessionReplay(systemRandom);
    const first = replay.keep("a", message("first"));
    for (let count = 0; count < 200_000; count += 1) replay.keep("a", message(`${count}`));
    expect(replay.streamOf(first.id)).toBeUndefined();
    const { id } = replay.keep("a", message("the last but one"));
    const last = replay.keep("a", message("x".repeat(1_000_000)));
    expect(replay.streamOf(id)).toBeUndefined();
    expect(replay.streamOf(last.id)).toBe("a");
  });

  it("is told of one stream only, whatever the others said in between", () => {
    const replay = createSessionReplay(systemRandom);
    const ids = ["a", "b", "GET", "a", "b", "GET", "a"].map(
      (stream, index) => replay.keep(stream, message(`${index}`)).id,
    );
    expect(new Set(ids).size).toBe(7);
    expect(replay.after(String(ids[0])).map(({ id }) => id)).toEqual([ids[3], ids[6]]);
    expect(createSessionReplay(systemRandom).streamOf(String(ids[0]))).toBeUndefined();
  });
});
