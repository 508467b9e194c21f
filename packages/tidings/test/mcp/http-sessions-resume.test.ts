import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import { callTool, initialize, post, readMessages } from "./http-mcp.ts";
import type { Frame } from "./http-reader.ts";
import { eventOf, isEnding } from "./http-reader.ts";
import type { TalkWorld } from "./talk-world.ts";
import { createTalkWorld, gateOf, get, take, talk, textOf } from "./talk-world.ts";

const idsOf = (frames: readonly Frame[]) => frames.map(({ id }) => id ?? "");
const last = (frames: readonly Frame[]) => frames.at(-1)?.id ?? "";

describe("streams of a 2025 session can be resumed", () => {
  let world: TalkWorld;
  beforeAll(async () => {
    world = await createTalkWorld();
  });
  afterAll(() => world.close());
  afterEach(() => {
    expect(world.errors).toEqual([]);
  });

  it("FC-09: exactly what that stream missed, then what comes; nothing of another stream", async () => {
    const session = await initialize(world.url);
    const gates = [gateOf("A"), gateOf("B")];
    const own = await get(world, session);
    const a = await talk(world, session, { name: "A", before: 10, after: 3 }, { id: 1 });
    const b = await talk(world, session, { name: "B", before: 10, after: 3 }, { id: 2 });
    for (let at = 1; at <= 10; at++) {
      await world.servers.at(-1)?.server.notification({ method: `notifications/own/${at}` });
    }
    const first = await take(a, 4);
    expect(first.map(textOf)).toEqual(["primed", "before 1", "before 2", "before 3"]);
    a.close();
    const resumed = await get(world, session, last(first));
    const missed = await take(resumed, 7);
    for (const gate of gates) gate.open();
    const live = await resumed.rest();
    expect([...missed, ...live].map(textOf)).toEqual([
      ...[4, 5, 6, 7, 8, 9, 10].map((at) => `before ${at}`),
      ...[1, 2, 3].map((at) => `after ${at}`),
      "answer",
    ]);
    for (const { data } of [...missed, ...live.slice(0, -1)]) expect(JSON.parse(data).params.name).toBe("A");
    const [others, said] = [await b.rest(), await take(own, 11)];
    expect(others.map(textOf).at(-1)).toBe("answer");
    expect(said.slice(1).map(textOf)).toEqual(
      Array.from({ length: 10 }, (_, at) => `notifications/own/${at + 1}`),
    );
    const ids = idsOf([...first, ...missed, ...live, ...others, ...said]);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[\x21-\x7e]+$/);
    own.close();
  });

  it("FC-10, security 4: an id of somebody else, of another session or of nobody is refused alike, without a byte of data", async () => {
    const ann = { Authorization: "Bearer ann" };
    const bob = { Authorization: "Bearer bob" };
    const sessions = {
      ann: await initialize(world.url, ann),
      annToo: await initialize(world.url, ann),
      bob: await initialize(world.url, bob),
    };
    const said = await (
      await talk(world, sessions.ann, { name: "secret", before: 3 }, { headers: ann })
    ).rest();
    const job = await callTool(world.url, sessions.ann, "start_quick", { steps: 1 }, ann);
    const id = last(said);
    const [stream = "", sealed = ""] = id.split(".");
    const flipped = Array.from(id, (character, at) => {
      const other = character === "A" ? "B" : "A";
      return id.slice(0, at) + other + id.slice(at + 1);
    });
    const foreign = [
      id,
      "1",
      "0",
      "x",
      stream,
      `${sealed}.${stream}`,
      `${sealed}.${sealed}`,
      `${id}.${sealed}`,
      `0${id}`,
      `${id}A`,
      `${stream}.${"A".repeat(22)}`,
      "__proto__",
      "9".repeat(400),
      String(job.jobId),
      String(job.cursor),
      ...flipped,
    ];
    const answers = new Set<string>();
    const ask = async (session: string, headers: Record<string, string>, wanted: string) => {
      const answer = await fetch(`${world.url}/mcp`, {
        headers: {
          Accept: "text/event-stream",
          "Mcp-Session-Id": session,
          "Last-Event-ID": wanted,
          ...headers,
        },
      });
      answers.add(`${answer.status} ${await answer.text()}`);
    };
    for (const wanted of foreign) {
      await ask(sessions.bob, bob, wanted);
      await ask(sessions.annToo, ann, wanted);
    }
    for (const wanted of foreign.slice(1)) await ask(sessions.ann, ann, wanted);
    expect([...answers]).toEqual([expect.stringMatching(/^400 \{.*not issued in this session/)]);
    answers.clear();
    // Ann's session with Bob's credentials is no session, whatever is asked of it.
    await ask(sessions.ann, bob, id);
    await ask("unknown", bob, id);
    expect([...answers]).toEqual([expect.stringMatching(/^404 .*Session not found/)]);
    // And Ann's own id still works.
    const own = await get(world, sessions.ann, said[1]?.id, ann);
    expect((await own.rest()).map(textOf)).toEqual(["before 2", "before 3", "answer"]);
  });

  it.each(["2025-03-26", "2025-06-18", "2025-11-25"])(
    "FC-18: a priming event only where %s knows it, ids in any case",
    async (protocolVersion) => {
      const begun = await post(world.url, {
        jsonrpc: "2.0",
        id: 0,
        method: "initialize",
        params: { protocolVersion, capabilities: {}, clientInfo: { name: "by-hand", version: "1.0.0" } },
      });
      const session = begun.headers.get("mcp-session-id") ?? "";
      const streams = [await begun.text()];
      const headers = { "MCP-Protocol-Version": protocolVersion };
      const answer = await talk(world, session, { name: "primed", before: 1 }, { headers });
      await answer.rest();
      streams.push(answer.raw);
      const own = await get(world, session, undefined, headers);
      await world.servers.at(-1)?.server.notification({ method: "notifications/own" });
      await own.until((frame) => frame.data !== "");
      streams.push(own.raw);
      own.close();
      for (const raw of streams) {
        const isPrimed = /^id: [!-~]+\nretry: 1000\ndata: \n\n/.test(raw);
        expect(isPrimed).toBe(protocolVersion === "2025-11-25");
        expect(raw.includes("data: \n")).toBe(isPrimed);
        for (const block of raw.split("\n\n").filter((text) => text.includes("data:"))) {
          expect(block).toMatch(/^id: [!-~]+$/m);
        }
      }
    },
  );

  it("a stream that broke before its first message is resumed from the priming event", async () => {
    const session = await initialize(world.url);
    const gate = gateOf("early");
    const stream = await talk(world, session, { name: "early", after: 2 });
    const [primed] = await take(stream, 1);
    stream.close();
    gate.open();
    const resumed = await get(world, session, primed?.id);
    expect((await resumed.rest()).map(textOf)).toEqual(["after 1", "after 2", "answer"]);
    const again = await get(world, session, primed?.id);
    expect((await again.rest()).map(textOf)).toEqual(["after 1", "after 2", "answer"]);
  });

  it("events of jobs, too: a GET stream goes on behind the last that came, whole and in order", async () => {
    const session = await initialize(world.url);
    let own = await get(world, session);
    const { jobId } = await callTool(world.url, session, "start_quick", { steps: 30 });
    const seqs: number[] = [];
    let position = "";
    for (let at = 1, isOver = false; !isOver; at++) {
      const frame = await own.next();
      if (frame === undefined) throw new Error("The stream ended.");
      position = frame.id ?? position;
      if (frame.data !== "") {
        const { event } = eventOf(JSON.parse(frame.data));
        seqs.push(event.seq ?? 0);
        isOver = isEnding(event.type);
      }
      if (at % 2 === 0) continue;
      // The connection breaks, with whatever is on its way.
      own.close();
      own = await get(world, session, position);
    }
    const { events } = await world.tidings.read({ owner: "local", jobIds: [String(jobId)], limit: 1000 });
    expect(seqs).toEqual(events.map(({ event }) => event.seq));
    own.close();
  });

  it("a resumption that breaks before the client was sent what it missed can be resumed again", async () => {
    const session = await initialize(world.url);
    const first = await get(world, session);
    const [primed] = await take(first, 1);
    await callTool(world.url, session, "start_quick", { steps: 1 });
    const isEnd = ({ data }: Frame) => data !== "" && isEnding(eventOf(JSON.parse(data)).event.type);
    const told = await first.until(isEnd);
    first.close();
    const second = await get(world, session, primed?.id);
    const [again] = await take(second, 1);
    second.close();
    const third = await get(world, session, again?.id);
    expect((await third.until(isEnd)).slice(1)).toEqual(told);
    third.close();
  });

  it("a request of the server on the GET stream is not asked twice, when the client does not say what it has", async () => {
    const session = await initialize(world.url);
    const first = await get(world, session);
    await world.servers.at(-1)?.server.notification({ method: "notifications/own/1" });
    await take(first, 2);
    first.close();
    const second = await get(world, session);
    await world.servers.at(-1)?.server.notification({ method: "notifications/own/2" });
    expect((await take(second, 2)).map(textOf)).toEqual(["primed", "notifications/own/2"]);
    second.close();
  });

  it("security 11: two requests of one session with the same id at once are refused", async () => {
    const session = await initialize(world.url);
    const gate = gateOf("twice");
    const first = await talk(world, session, { name: "twice" }, { id: 7 });
    const second = await talk(world, session, { name: "twice" }, { id: 7 });
    expect(second.status).toBe(400);
    const batch = [1, 1].map((id) => ({ jsonrpc: "2.0", id, method: "ping" }));
    expect((await post(world.url, batch, { "Mcp-Session-Id": session })).status).toBe(400);
    gate.open();
    expect((await first.rest()).map(textOf)).toEqual(["primed", "answer"]);
  });

  it("a batch is answered on one stream, which ends behind its last answer", async () => {
    const session = await initialize(world.url);
    const batch = ["a", 1, "1"].map((id) => ({ jsonrpc: "2.0", id, method: "ping" }));
    const response = await post(world.url, [...batch, { jsonrpc: "2.0", method: "notifications/x" }], {
      "Mcp-Session-Id": session,
    });
    const answers = (await response.text()).match(/"id":("a"|"1"|1)/g);
    expect(new Set(answers)).toEqual(new Set(['"id":"a"', '"id":1', '"id":"1"']));
  });

  it.each(["before", "during", "after"])(
    "FC-12: a connection that dies %s the resume does not take its successor along",
    async (order) => {
      const HEARTBEAT_MS = 1_000;
      const clock = createManualClock();
      let armed = 0;
      const after: typeof clock.after = (ms, call) => {
        const isBeat = ms === HEARTBEAT_MS;
        if (isBeat) armed++;
        let isOver = false;
        const settle = () => {
          if (!isOver && isBeat) armed--;
          isOver = true;
        };
        const stop = clock.after(ms, () => {
          settle();
          call();
        });
        return () => {
          settle();
          stop();
        };
      };
      const own = await createTalkWorld({ clock: { ...clock, after }, heartbeatMs: HEARTBEAT_MS });
      const session = await initialize(own.url);
      const sockets: import("node:net").Socket[] = [];
      own.server.on("request", (req) => void (req.method === "GET" && sockets.push(req.socket)));
      const say = (word: string) => own.servers[0]?.server.notification({ method: `notifications/${word}` });
      const first = await get(own, session);
      await say("zero");
      const position = last(await take(first, 2));
      // Frozen: the server hears nothing of it until we let it.
      const die = async () => {
        sockets[0]?.destroy();
        await new Promise((resolve) => setImmediate(resolve));
      };
      if (order === "before") await die();
      const resuming = get(own, session, position);
      if (order === "during") await die();
      const second = await resuming;
      await say("a");
      if (order === "after") await die();
      await say("b");
      expect((await take(second, 3)).map(textOf)).toEqual(["primed", "notifications/a", "notifications/b"]);
      const beats = second.comments.length;
      clock.advance(2 * HEARTBEAT_MS);
      expect(await second.untilComments(beats + 2)).toBe(true);
      expect(armed).toBe(1);
      second.close();
      first.close();
      await expect.poll(() => armed).toBe(0);
      expect(own.errors).toEqual([]);
      await own.close();
    },
  );

  it("DELETE while streams are open: unanswered requests are told, the streams end, the session is gone", async () => {
    const session = await initialize(world.url);
    gateOf("deleted");
    const own = await get(world, session);
    const call = await talk(world, session, { name: "deleted", before: 1 });
    await take(call, 2);
    const answer = await fetch(`${world.url}/mcp`, {
      method: "DELETE",
      headers: { "Mcp-Session-Id": session },
    });
    expect(answer.status).toBe(200);
    const [end] = await call.rest();
    expect(JSON.parse(end?.data ?? "")).toMatchObject({ id: 1, error: { code: -32000 } });
    expect((await own.rest()).map(textOf)).toEqual(["primed"]);
    expect(world.aborted).toContain("deleted");
    expect((await get(world, session, end?.id)).status).toBe(404);
  });

  describe("FC-35: a disconnect is not a cancel", () => {
    it("(c) a blocking tool goes on, and its answer can be had later", async () => {
      const session = await initialize(world.url);
      const gate = gateOf("blocking");
      const stream = await talk(world, session, { name: "blocking", before: 1, after: 1 });
      const position = last(await take(stream, 2));
      stream.close();
      gate.open();
      const resumed = await get(world, session, position);
      expect((await resumed.rest()).map(textOf)).toEqual(["after 1", "answer"]);
      expect(world.aborted).not.toContain("blocking");
    });

    it("(d) after notifications/cancelled nothing more is said, and nothing waits for it", async () => {
      const session = await initialize(world.url);
      const gate = gateOf("cancelled");
      const stream = await talk(world, session, { name: "cancelled", before: 1, after: 1 }, { id: "c" });
      const position = last(await take(stream, 2));
      const params = { requestId: "c", reason: "enough" };
      await post(
        world.url,
        { jsonrpc: "2.0", method: "notifications/cancelled", params },
        { "Mcp-Session-Id": session },
      );
      expect(await stream.rest()).toEqual([]);
      gate.open();
      await expect.poll(() => world.aborted).toContain("cancelled");
      const resumed = await get(world, session, position);
      // What event streams take for "do not come again".
      expect(resumed.status).toBe(204);
      // Its id may be used again.
      const again = await talk(world, session, { name: "again" }, { id: "c" });
      expect((await again.rest()).map(textOf)).toEqual(["primed", "answer"]);
    });

    it("(d) a call that is cancelled inside a batch gives its place back; the others of the batch are answered", async () => {
      const session = await initialize(world.url);
      const headers = { "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-03-26" };
      const gate = gateOf("goes on");
      gateOf("stays shut");
      const callOf = (id: string, name: string) => ({
        jsonrpc: "2.0",
        id,
        method: "tools/call",
        params: { name: "talk", arguments: { name } },
      });
      const batch = await post(
        world.url,
        [callOf("shut", "stays shut"), callOf("other", "goes on")],
        headers,
      );
      const cancel = {
        jsonrpc: "2.0",
        method: "notifications/cancelled",
        params: { requestId: "shut" },
      };
      await post(world.url, [cancel], headers);
      const messages = readMessages(batch);
      expect(await messages.next()).toMatchObject({ id: "shut", error: { code: -32000 } });
      gate.open();
      expect(await messages.next()).toMatchObject({ id: "other", result: {} });
      expect(await messages.next()).toBeUndefined();
      expect(world.aborted).toContain("stays shut");
      const again = await talk(world, session, { name: "free again" }, { id: "shut" });
      expect((await again.rest()).map(textOf)).toEqual(["primed", "answer"]);
    });
  });
});
