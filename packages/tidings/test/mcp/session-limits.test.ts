/** What one owner, one session and one request may take, so that nobody takes all there is. */
import { createManualClock } from "tidings/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Message } from "./http-mcp.ts";
import { initialize, modern, openStream, post, readMessages } from "./http-mcp.ts";
import type { World } from "./http-world.ts";
import { createWorld } from "./http-world.ts";

const as = (name: string) => ({ Authorization: `Bearer ${name}` });
const [alice, mallory] = [as("alice"), as("mallory")];

async function open(options: Parameters<typeof createWorld>[0] = {}): Promise<World> {
  const world = await createWorld(options);
  onTestFinished(async () => {
    expect(world.errors).toEqual([]);
    await world.close();
  });
  return world;
}

function begin(url: string, headers: Record<string, string>, name = "by-hand"): Promise<Response> {
  const clientInfo = { name, version: "1.0.0" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  return post(url, { jsonrpc: "2.0", id: 7, method: "initialize", params }, headers);
}

describe("security 21: sessions", () => {
  it("one owner that keeps sessions in use is told its share, and somebody else still begins one", async () => {
    const { url } = await open({ maxSessions: 5, maxSessionsPerOwner: 4 });
    for (let at = 0; at < 4; at++) {
      const stream = await openStream(url, await initialize(url, mallory), mallory);
      onTestFinished(() => stream.reader.close());
    }
    const refused = await begin(url, mallory);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "30"]);
    expect(await refused.json()).toMatchObject({
      id: 7,
      error: {
        message: expect.stringContaining("4 sessions"),
        data: { code: "TOO_MANY_REQUESTS", retryable: true, limit: 4, retryAfterMs: 30_000 },
      },
    });
    expect(await initialize(url, alice)).toMatch(/./);
  });

  it("a server that is full says so by its code, with the limit and when to come again", async () => {
    const { url } = await open({ maxSessions: 2 });
    for (let at = 0; at < 2; at++) await initialize(url, mallory);
    const refused = await begin(url, alice);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "30"]);
    expect(await refused.json()).toMatchObject({
      id: 7,
      error: { data: { code: "SERVER_FULL", retryable: true, limit: 2, retryAfterMs: 30_000 } },
    });
  });

  it("a client that crashes and begins anew, again and again, is never shut out: what it left makes room", async () => {
    const { url } = await open({ maxSessions: 10, maxSessionsPerOwner: 3 });
    const used = await initialize(url, alice);
    const stream = await openStream(url, used, alice);
    for (let crash = 0; crash < 20; crash++) await initialize(url, alice);
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    const answer = await post(url, ping, { ...alice, "Mcp-Session-Id": used });
    expect(answer.status).toBe(200);
    await answer.text();
    stream.reader.close();
  });

  it("as many that begin at the same time as come one after the other", async () => {
    const { url } = await open({ maxSessions: 100, maxSessionsPerOwner: 3, clock: createManualClock() });
    const answers = await Promise.all(Array.from({ length: 20 }, () => begin(url, mallory)));
    const ids = answers.map(({ headers }) => headers.get("mcp-session-id"));
    for (const answer of answers) await answer.text();
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    let alive = 0;
    for (const id of ids) {
      if (id === null) continue;
      const answer = await post(url, ping, { ...mallory, "Mcp-Session-Id": id });
      if (answer.status === 200) alive++;
      await answer.text();
    }
    expect(alive).toBe(3);
  });
});

describe("names from outside that are kept", () => {
  const LONG = "x".repeat(4_000_000);

  it("a subscription's uri of megabytes is refused with the limit, and so are many long ones together", async () => {
    const { url } = await open();
    const session = await initialize(url);
    const subscribe = async (uri: string): Promise<Message | undefined> => {
      const body = { jsonrpc: "2.0", id: 1, method: "resources/subscribe", params: { uri } };
      return readMessages(await post(url, body, { "Mcp-Session-Id": session })).next();
    };
    expect(await subscribe(`resource:${LONG}`)).toMatchObject({
      error: { code: -32602, message: expect.any(String), data: { code: "BAD_INPUT", limit: 2_048 } },
    });
    let refusal: Message | undefined;
    for (let at = 0; at < 100 && refusal === undefined; at++) {
      const answer = await subscribe(`resource:${at}:${"x".repeat(2_000)}`);
      if (answer?.error !== undefined) refusal = answer;
    }
    expect(refusal).toMatchObject({ error: { data: { code: "TOO_MANY_REQUESTS", limit: 131_072 } } });
  });

  it("what a client says of itself in initialize is bounded: it stays as long as the session", async () => {
    const { url } = await open();
    const refused = await begin(url, {}, LONG);
    expect(refused.status).toBe(413);
    expect(await refused.json()).toMatchObject({
      error: { data: { code: "PAYLOAD_TOO_LARGE", limit: 65_536 } },
    });
  });

  it("a request's id of megabytes is refused: a listen would carry it in each message", async () => {
    const { url } = await open();
    const refused = await modern(url, "subscriptions/listen", { notifications: {} }, { id: LONG });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({
      id: null,
      error: { code: -32600, data: { code: "BAD_MESSAGE", limit: 2_048 } },
    });
  });

  it("the names of a listen are bounded in all, and each of them", async () => {
    const { url } = await open();
    const listen = async (notifications: object) =>
      (await modern(url, "subscriptions/listen", { notifications })).json();
    const many = Array.from({ length: 100 }, (_, at) => `resource:${at}:${"x".repeat(2_000)}`);
    const filters = [
      { resourceSubscriptions: [LONG] },
      { resourceSubscriptions: many },
      { "dev.tidings/jobs": { jobIds: [LONG] } },
      { "dev.tidings/jobs": { correlationId: LONG } },
      { "dev.tidings/jobs": { after: LONG } },
    ];
    for (const filter of filters) {
      expect(await listen(filter)).toMatchObject({ error: { code: -32602, data: { code: "BAD_INPUT" } } });
    }
  });
});
