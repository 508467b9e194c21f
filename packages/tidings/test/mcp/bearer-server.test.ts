/** A server whose clients sign in: what each path answers without a token, with a wrong one, and with a good one. */
import { createBearerVerifier } from "tidings/mcp";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import { initialize, MODERN, modern, post } from "./http-mcp.ts";
import { openEvents, readEvents } from "./http-reader.ts";
import { createWorld, quick } from "./http-world.ts";
import type { Key } from "./issuer.ts";
import { AUDIENCE, createKey, ISSUER, sign } from "./issuer.ts";
import { createTalkWorld, gateOf, talk } from "./talk-world.ts";

const NOW_S = () => Math.floor(Date.now() / 1000);

let key: Key;
beforeAll(async () => {
  key = await createKey("k1");
});

describe("a server with a verifier", () => {
  const INITIALIZE = {
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "x", version: "1" },
    },
  };

  async function openWorld(more: object = {}) {
    const world = await createWorld({
      auth: createBearerVerifier({ issuer: ISSUER, audience: AUDIENCE, jwks: { keys: [key.jwk] } }),
      ...more,
    });
    onTestFinished(() => world.close());
    return world;
  }

  it("security 1: answers 401 with a challenge on every path without a valid token, a session's id or not", async () => {
    const world = await openWorld();
    const signedIn = { Authorization: `Bearer ${await sign(key, "ann")}` };
    const session = await initialize(world.url, signedIn);
    const paths: [string, (headers: Record<string, string>) => Promise<Response>][] = [
      ["2025 initialize", (headers) => post(world.url, INITIALIZE, headers)],
      [
        "2025 request in a session of somebody",
        (headers) =>
          post(
            world.url,
            { jsonrpc: "2.0", id: 1, method: "tools/list" },
            { ...headers, "Mcp-Session-Id": session },
          ),
      ],
      [
        "2025 stream",
        (headers) =>
          fetch(`${world.url}/mcp`, {
            headers: { ...headers, Accept: "text/event-stream", "Mcp-Session-Id": session },
          }),
      ],
      [
        "2025 end",
        (headers) =>
          fetch(`${world.url}/mcp`, { method: "DELETE", headers: { ...headers, "Mcp-Session-Id": session } }),
      ],
      ["2026 request", (headers) => modern(world.url, "tools/list", {}, { headers })],
      [
        "2026 listen",
        (headers) => modern(world.url, "subscriptions/listen", { notifications: {} }, { headers }),
      ],
      ["snapshot", (headers) => fetch(`${world.url}/jobs/x`, { headers })],
      ["job's events", (headers) => fetch(`${world.url}/jobs/x/events`, { headers })],
      ["cancel", (headers) => fetch(`${world.url}/jobs/x/cancel`, { method: "POST", headers })],
      ["log", (headers) => fetch(`${world.url}/events`, { headers })],
    ];
    const expired = await sign(key, "ann", { claims: { exp: NOW_S() - 3600 } });
    const bad: Record<string, string>[] = [
      {},
      { Authorization: "" },
      { Authorization: "Bearer" },
      { Authorization: "Basic YW5uOmFubg==" },
      { Authorization: "Bearer one two" },
      { Authorization: `Bearer ${expired}` },
    ];
    for (const [what, send] of paths) {
      for (const headers of bad) {
        const response = await send(headers);
        const body = await response.text();
        expect([what, response.status]).toEqual([what, 401]);
        expect(response.headers.get("www-authenticate")).toMatch(/^Bearer error="invalid_token", /);
        expect(body).toContain("UNAUTHENTICATED");
        expect(body).not.toContain(expired.slice(-20));
      }
      const answered = await send(signedIn);
      expect([what, answered.status === 401]).toEqual([what, false]);
      await answered.body?.cancel();
    }
    expect(world.errors).toEqual([]);
  });

  it("gives each person jobs of their own, named by issuer and subject", async () => {
    const world = await openWorld();
    const headers = { Authorization: `Bearer ${await sign(key, "ann")}` };
    const answer = await modern(world.url, "tools/call", { name: "start_quick", arguments: {} }, { headers });
    const { result } = (await answer.json()) as { result: { structuredContent: { jobId: string } } };
    const { jobId } = result.structuredContent;
    expect(await world.tidings.get(JSON.stringify([ISSUER, "ann"]), jobId)).toMatchObject({ jobId });
    expect((await fetch(`${world.url}/jobs/${jobId}`, { headers })).status).toBe(200);
    const others = { Authorization: `Bearer ${await sign(key, "bob")}` };
    expect((await fetch(`${world.url}/jobs/${jobId}`, { headers: others })).status).toBe(404);
  });

  it("asks for scopes: 403 names those that are missing", async () => {
    const world = await openWorld({ requiredScopes: ["jobs"] });
    const send = async (scope: string) =>
      fetch(`${world.url}/jobs/x`, {
        headers: { Authorization: `Bearer ${await sign(key, "ann", { claims: { scope } })}` },
      });
    const response = await send("other jobs:read");
    expect(response.status).toBe(403);
    expect(response.headers.get("www-authenticate")).toMatch(/error="insufficient_scope".*scope="jobs"/);
    expect(await response.json()).toMatchObject({ error: { code: "INSUFFICIENT_SCOPE" } });
    expect((await send("other jobs")).status).toBe(404);
  });

  it("tells clients where tokens come from, under the address that its challenges name", async () => {
    const resource = { url: AUDIENCE, authorizationServers: [ISSUER], name: "Gifts" };
    const world = await openWorld({ resource, requiredScopes: ["jobs"] });
    const challenge = (await fetch(`${world.url}/events`)).headers.get("www-authenticate");
    const [, address] = /resource_metadata="([^"]+)"/.exec(challenge ?? "") ?? [];
    expect(address).toBe("https://gifts.example/.well-known/oauth-protected-resource/mcp");
    const response = await fetch(world.url + new URL(address ?? "").pathname);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      resource: AUDIENCE,
      authorization_servers: [ISSUER],
      bearer_methods_supported: ["header"],
      scopes_supported: ["jobs"],
      resource_name: "Gifts",
    });
  });

  it("works with a verifier of your own: what it does not know is a 401, what it throws is a fault", async () => {
    const world = await openWorld({
      auth(token: string) {
        if (token === "broken") throw new Error("The table of keys is gone.");
        return token === "key-of-ann" ? { token, clientId: "ann", scopes: [] } : undefined;
      },
    });
    const { jobId } = await world.tidings.start(quick, {}, { owner: "ann" });
    const status = async (token: string) =>
      (await fetch(`${world.url}/jobs/${jobId}`, { headers: { Authorization: `Bearer ${token}` } })).status;
    expect([await status("key-of-ann"), await status("key-of-bob"), await status("broken")]).toEqual([
      200, 401, 500,
    ]);
    expect(world.errors.map(String)).toEqual(["Error: The table of keys is gone."]);
  });

  it("ends a stream within a minute of its token's end; a new token goes on from the cursor", async () => {
    const clock = createManualClock({ now: Date.now() });
    const world = await openWorld({ clock, heartbeatMs: 3_600_000, stallMs: 36_000_000 });
    const owner = JSON.stringify([ISSUER, "ann"]);
    const open = async (after: string, exp: number) => {
      const token = await sign(key, "ann", { claims: { exp } });
      return openEvents(`${world.url}/events?after=${after}`, {
        headers: { Authorization: `Bearer ${token}` },
      });
    };
    const isOver = ({ event }: { event: string | undefined }) => event === "job.completed";
    const first = await open(await world.tidings.head(owner), NOW_S() + 100);
    await world.tidings.start(quick, { steps: 1 }, { owner });
    const seen = await first.until(isOver);
    clock.advance(100_000);
    await world.tidings.start(quick, { steps: 1 }, { owner });
    expect((await first.until(isOver)).at(-1)?.event).toBe("job.completed");
    clock.advance(61_000);
    await expect(first.rest()).rejects.toThrow();
    const second = await open(String(seen.at(-1)?.id), NOW_S() + 3600);
    expect((await second.until(isOver)).map(({ event }) => event)).toContain("job.created");
    second.close();
  });

  it.each(["2025-11-25", "2026-07-28"])(
    "ends the streamed answer to a POST as well, on %s: it does not outlive its token",
    async (era) => {
      const clock = createManualClock({ now: Date.now() });
      const auth = createBearerVerifier({
        issuer: ISSUER,
        audience: AUDIENCE,
        jwks: { keys: [key.jwk] },
        clock,
      });
      const quiet = { heartbeatMs: 36_000_000, stallMs: 36_000_000, sessionIdleMs: 36_000_000 };
      const world = await createTalkWorld({ auth, clock, ...quiet });
      onTestFinished(() => world.close());
      const token = await sign(key, "ann", { claims: { exp: NOW_S() + 100 } });
      const headers = { Authorization: `Bearer ${token}` };
      const gate = gateOf(`outlives ${era}`);
      onTestFinished(() => gate.open());
      const args = { name: `outlives ${era}`, before: 1 };
      const answer =
        era === MODERN
          ? readEvents(await modern(world.url, "tools/call", { name: "talk", arguments: args }, { headers }))
          : await talk(world, await initialize(world.url, headers), args, { headers });
      await answer.until(({ data }) => data.includes("before 1"));
      clock.advance(161_000);
      await expect(answer.rest()).rejects.toThrow();
    },
  );
});
