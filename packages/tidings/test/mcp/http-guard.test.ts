import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { GuardOptions } from "../../src/mcp/server/request-guard.ts";
import { findForbidden } from "../../src/mcp/server/request-guard.ts";
import type { World } from "./http-world.ts";
import { createWorld } from "./http-world.ts";

/** `fetch` sets Host by itself; a rebound page's browser sends the attacker's. */
function send(
  port: number,
  headers: Record<string, string>,
  { method = "GET", path = "/jobs/x" } = {},
): Promise<{ status: number; body: string; headers: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    request({ port, host: "127.0.0.1", path, method, headers, setHost: false }, async (res) => {
      let body = "";
      for await (const chunk of res) body += chunk;
      resolve({ status: res.statusCode ?? 0, body, headers: res.headers });
    })
      .on("error", reject)
      .end();
  });
}

describe("a server on loopback", () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld({ allowedHosts: ["gifts.example"], allowedOrigins: ["https://app.example"] });
  });
  afterAll(() => world.close());

  it.each(["127.0.0.1", "localhost", "LOCALHOST:3000", "[::1]:3000", "127.0.0.2:80", "gifts.example"])(
    "answers for the host %s",
    async (Host) => {
      expect((await send(world.port, { Host })).status).toBe(404);
    },
  );

  it.each([
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil@localhost",
    "x y",
    "0.0.0.0",
    "1",
  ])("does not answer for the host %j", async (Host) => {
    for (const path of ["/jobs/x", "/jobs/x/events", "/events", "/mcp"]) {
      const { status, body } = await send(world.port, { Host }, { path });
      expect(status).toBe(403);
      const { error } = JSON.parse(body);
      expect(path === "/mcp" ? error.data : error).toMatchObject({ code: "FORBIDDEN", retryable: false });
    }
  });

  it.each([
    "http://127.0.0.1:5173",
    "http://localhost:3000",
    "http://[::1]",
    "https://app.example",
    "https://gifts.example",
  ])("lets a page of %s read", async (Origin) => {
    const { status, headers } = await send(world.port, { Host: "127.0.0.1", Origin });
    expect(status).toBe(404);
    expect(headers["access-control-allow-origin"]).toBe(Origin);
    expect(headers.vary).toBe("Origin");
    // A page is shown no other headers of ours: how to sign in, when to come back, which session it is.
    expect(headers["access-control-expose-headers"]).toBe(
      "Mcp-Session-Id, WWW-Authenticate, Retry-After, Allow",
    );
  });

  it.each([
    "http://evil.example",
    "null",
    "https://app.example.evil",
    "http://localhost.evil",
    "file://",
    "garbage",
    "",
  ])("refuses a page of %j, whatever the host", async (Origin) => {
    const { status, headers } = await send(world.port, { Host: "127.0.0.1", Origin });
    expect(status).toBe(403);
    expect(headers["access-control-allow-origin"]).toBeUndefined();
  });

  it("a preflight of an allowed page is answered with what it asked for", async () => {
    const { status, headers } = await send(
      world.port,
      {
        Host: "localhost",
        Origin: "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, mcp-session-id",
      },
      { method: "OPTIONS", path: "/mcp" },
    );
    expect(status).toBe(204);
    expect(headers["access-control-allow-origin"]).toBe("https://app.example");
    expect(headers["access-control-allow-methods"]).toBe("GET, POST, DELETE");
    expect(headers["access-control-allow-headers"]).toBe("content-type, mcp-session-id");
  });
});

describe("a server on another address", () => {
  /** Only what the guard looks at: a second network address cannot be had everywhere. */
  const check = (headers: Record<string, string>, options: GuardOptions = {}) =>
    findForbidden(
      { headers, socket: { localAddress: "192.0.2.1" } } as unknown as Parameters<typeof findForbidden>[0],
      options,
    );

  it("answers for any host, unless hosts are named", () => {
    expect(check({ host: "gifts.example" })).toBeUndefined();
    expect(check({ host: "gifts.example" }, { allowedHosts: ["gifts.example"] })).toBeUndefined();
    expect(check({ host: "other.example" }, { allowedHosts: ["gifts.example"] })).toMatch(/other\.example/);
    expect(check({ host: "localhost" }, { allowedHosts: ["gifts.example"] })).toMatch(/localhost/);
  });

  it("lets only pages of its own host use it", () => {
    expect(check({ host: "gifts.example", origin: "https://gifts.example" })).toBeUndefined();
    expect(check({ host: "gifts.example:8443", origin: "https://gifts.example:8443" })).toBeUndefined();
    expect(check({ host: "gifts.example", origin: "http://localhost" })).toMatch(/may not use/);
    expect(check({ host: "gifts.example", origin: "https://evil.example" })).toMatch(/may not use/);
  });
});
