import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import { TidingsError } from "../../src/model/error.ts";
import type { Tidings } from "../../src/runtime/tidings.ts";
import { initialize, listen, MODERN, modern, post } from "./http-mcp.ts";
import { openEvents } from "./http-reader.ts";
import type { World } from "./http-world.ts";
import { createGate, createWorld, quick } from "./http-world.ts";

describe("hostile requests", () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld({ maxBodyBytes: 100_000 });
  });
  afterAll(() => world.close());
  afterEach(async () => {
    expect(world.errors).toEqual([]);
    const alive = await modern(world.url, "tools/list", {});
    expect(alive.status).toBe(200);
    await alive.text();
  });

  const call = (args: unknown) => ({ name: "start_quick", arguments: args as Record<string, unknown> });
  const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;

  it("a body above the cap is 413, whether its length is told or not", async () => {
    const told = await post(world.url, `"${"x".repeat(100_000)}"`);
    expect(told.status).toBe(413);
    expect(await told.json()).toMatchObject({ error: { code: -32000, data: { code: "PAYLOAD_TOO_LARGE" } } });
    const endless = await fetch(`${world.url}/mcp`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: new ReadableStream({
        pull: (controller) => controller.enqueue(new Uint8Array(16_384)),
      }),
      duplex: "half",
    } as RequestInit).catch((error: Error) => error);
    // The answer, or a cut connection: never an endless read.
    if (endless instanceof Response) expect(endless.status).toBe(413);
  });

  it("arguments may be 64 levels deep and no deeper (-32602)", async () => {
    const fits = await modern(world.url, "tools/call", call(JSON.parse(nested(64))));
    expect(fits.status).toBe(200);
    await fits.text();
    for (const depth of [65, 10_000]) {
      const body = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"x","arguments":${nested(depth)}}}`;
      const deep = await post(world.url, body, {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
      });
      expect(deep.status).toBe(400);
      expect(await deep.json()).toMatchObject({
        id: 9,
        error: { code: -32602, data: { code: "BAD_INPUT" } },
      });
    }
  });

  it.each(["", "{", "nul", "\u0000", "[1,", '{"a":}'])("the body %j is a parse error", async (body) => {
    const response = await post(world.url, body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ id: null, error: { code: -32700 } });
  });

  it.each(["null", "1", '"x"', "[]", "{}", '{"jsonrpc":"2.0"}', '{"__proto__":{"x":1}}', "[null]"])(
    "the body %j is refused with a JSON-RPC error",
    async (body) => {
      const response = await post(world.url, body);
      expect(response.status).toBeGreaterThanOrEqual(400);
      expect(response.status).toBeLessThan(500);
      expect(await response.json()).toHaveProperty("error.code");
    },
  );

  it("another content type is 415", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"]) {
      const response = await post(world.url, "{}", { "Content-Type": type });
      expect(response.status).toBe(415);
      await response.text();
    }
  });

  it("other methods on /mcp are 405 with Allow", async () => {
    for (const method of ["PUT", "PATCH", "HEAD"]) {
      const response = await fetch(`${world.url}/mcp`, { method });
      expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, POST, DELETE"]);
    }
  });

  /** Sends bytes and waits for the connection's end. */
  function sendRaw(bytes: string): Promise<string> {
    return new Promise((resolve) => {
      const socket = connect(world.port, "127.0.0.1");
      let answer = "";
      socket.on("data", (chunk) => {
        answer += chunk;
      });
      socket.on("error", () => {});
      socket.on("close", () => resolve(answer));
      socket.end(bytes, "latin1");
    });
  }

  it.each([
    "GET http://127.0.0.1/jobs/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    "GET //evil/jobs/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    "GET /jobs/../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    "GET /jobs/x HTTP/1.0\r\n\r\n",
    "GET /jobs/x HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: \xff\xfe\r\n__proto__: x\r\nConnection: close\r\n\r\n",
    "GET /events?after=%zz&after=%00 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    "BREW /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "\0\0\0\0",
  ])("%j is no 5xx and no crash", async (bytes) => {
    expect(await sendRaw(bytes)).not.toMatch(/^HTTP\/1\.1 5/);
    world.errors.length = 0;
  });

  it("random JSON-RPC is never a 5xx", async () => {
    const session = await initialize(world.url);
    const method = fc.constantFrom(
      "tools/call",
      "subscriptions/listen",
      "resources/read",
      "initialize",
      "ping",
      "x",
      "",
    );
    const headers = fc.constantFrom<Record<string, string>>(
      {},
      { "Mcp-Session-Id": session },
      { "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "start_quick" },
      { "MCP-Protocol-Version": "\u00ff" },
    );
    await fc.assert(
      fc.asyncProperty(method, fc.jsonValue(), fc.jsonValue(), headers, async (name, id, params, extra) => {
        const response = await post(world.url, { jsonrpc: "2.0", id, method: name, params } as never, extra);
        expect(response.status).toBeLessThan(500);
        await response.body?.cancel();
      }),
      { numRuns: 300 },
    );
  });
});

describe("a store that fails", () => {
  it("says nowhere where it lies, and tells the operator", async () => {
    const failure = new TidingsError("STORE_FAILED", 'The store "/srv/secret/jobs.db" failed.', {
      hint: "Look at /srv/secret.",
    });
    const broken = (tidings: Tidings): Tidings => ({
      ...tidings,
      get: () => Promise.reject(failure),
      head: () => Promise.reject(failure),
    });
    const world = await createWorld({ wrap: broken });
    const session = await initialize(world.url);
    const answers = await Promise.all([
      fetch(`${world.url}/jobs/x`),
      fetch(`${world.url}/events`),
      modern(world.url, "tools/call", { name: "get_job", arguments: { jobId: "x" } }),
      modern(world.url, "resources/read", { uri: "job://x" }, { headers: { "Mcp-Name": "job://x" } }),
      modern(world.url, "subscriptions/listen", { notifications: { "dev.tidings/jobs": {} } }),
      post(
        world.url,
        { jsonrpc: "2.0", id: 1, method: "resources/subscribe", params: { uri: "job://x" } },
        { "Mcp-Session-Id": session },
      ),
    ]);
    for (const answer of answers) {
      const body = await answer.text();
      expect(body).toContain("STORE_FAILED");
      expect(body).not.toContain("/srv");
    }
    expect(answers.slice(0, 2).map(({ status }) => status)).toEqual([503, 503]);
    expect(world.errors).toEqual(answers.map(() => failure));
    await world.close();
  });
});

describe("a reader that takes nothing", () => {
  it("costs no memory, disturbs nobody, and is cut with a position to go on from", async () => {
    const clock = createManualClock();
    const world = await createWorld({ clock, stallMs: 60_000 });
    const responses: ServerResponse[] = [];
    world.server.prependListener("request", (_, res) => responses.push(res));
    const socket = connect(world.port, "127.0.0.1");
    socket.pause();
    socket.write("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    const appeared = new Promise<void>((resolve) => world.server.once("request", () => resolve()));
    await appeared;
    const stalled = responses[0];
    const healthy = await openEvents(`${world.url}/events`);
    const note = "x".repeat(10_000);
    const EVENTS = 3_000;
    let largest = 0;
    const reading = (async () => {
      for (let count = 0; count < EVENTS; count++) await healthy.next();
    })();
    for (let count = 0; count < EVENTS; count++) {
      await world.tidings.publish({ type: "system.log", level: "info", message: note, source: "test" }, {});
      largest = Math.max(largest, stalled?.writableLength ?? 0);
    }
    await reading;
    healthy.close();
    expect(stalled?.writableNeedDrain).toBe(true);
    // 30 MB were published; of the stalled stream only what the socket refused is held.
    expect(largest).toBeLessThan(200_000);
    const cut = new Promise<void>((resolve) => stalled?.once("close", () => resolve()));
    clock.advance(60_000);
    await cut;
    socket.destroy();
    await world.close();
    expect(world.errors).toEqual([]);
  });

  it("leaves nothing behind: a thousand streams come and go, and no watcher stays", async () => {
    let watchers = 0;
    const world = await createWorld();
    const { watch } = world.engine;
    world.engine.watch = (owner, wake) => {
      watchers++;
      const stop = watch.call(world.engine, owner, wake);
      return () => {
        watchers--;
        stop();
      };
    };
    for (let batch = 0; batch < 10; batch++) {
      const readers = await Promise.all(Array.from({ length: 100 }, () => openEvents(`${world.url}/events`)));
      const { jobId } = await world.tidings.start(quick, { steps: 1 });
      const firsts = await Promise.all(readers.map((reader) => reader.next()));
      for (const frame of firsts)
        expect(JSON.parse(frame?.data ?? "")).toMatchObject({ type: "job.created", jobId });
      for (const reader of readers) reader.close();
    }
    expect(watchers).toBeGreaterThan(0);
    await world.handler.close();
    await expect.poll(() => watchers).toBe(0);
    await world.close();
  });

  it("that left before its stream opened leaves nothing behind", async () => {
    const arrived = createGate();
    const gate = createGate();
    let subscriptions = 0;
    const slow = (tidings: Tidings): Tidings => ({
      ...tidings,
      async head(owner) {
        arrived.open();
        await gate.opened;
        return tidings.head(owner);
      },
      async subscribe(request, subscriber) {
        const subscription = await tidings.subscribe(request, subscriber);
        subscriptions++;
        return {
          ...subscription,
          stop() {
            subscriptions--;
            subscription.stop();
          },
        };
      },
    });
    const world = await createWorld({ wrap: slow });
    const handled: Promise<boolean>[] = [];
    const responses: ServerResponse[] = [];
    world.server.prependListener("request", (_, res) => responses.push(res));
    const { handle } = world.handler;
    world.handler.handle = (...request) => {
      const done = handle(...request);
      handled.push(done);
      return done;
    };
    const abort = new AbortController();
    const opening = Promise.all([
      fetch(`${world.url}/events`, { signal: abort.signal }).catch(() => {}),
      listen(world.url, { "dev.tidings/jobs": {} }, { signal: abort.signal }).catch(() => {}),
    ]);
    await arrived.opened;
    await expect.poll(() => handled.length).toBe(2);
    abort.abort();
    await opening;
    await expect.poll(() => responses.every((res) => res.destroyed)).toBe(true);
    gate.open();
    expect(await Promise.all(handled)).toEqual([true, true]);
    expect(subscriptions).toBe(0);
    await world.close();
    expect(world.errors).toEqual([]);
  });
});
