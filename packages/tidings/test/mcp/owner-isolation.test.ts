/**
 * Nothing of one owner reaches another. Ann has a job, a session and cursors; Bob knows them all. Whatever Bob sends, he
 * is answered as for things that never existed: same status, same headers, same bytes, and nothing of Ann's changes.
 */
import { randomBytes } from "node:crypto";
import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Message } from "./http-mcp.ts";
import { callTool, ENVELOPE, initialize, listen, MODERN, openStream } from "./http-mcp.ts";
import { openEvents } from "./http-reader.ts";
import type { World } from "./http-world.ts";
import { createGate, createWorld, gated, gates, quick } from "./http-world.ts";

const as = (name: string) => ({ Authorization: `Bearer ${name}` });

let world: World;
/** A completed job of Ann's, and one that runs. */
let ended: string;
let running: string;

beforeAll(async () => {
  world = await createWorld({
    auth: (token) => (token === "" ? undefined : { token, clientId: token, scopes: [] }),
  });
  gates.set("ann", createGate());
  ended = await finish("ann");
  running = (await world.tidings.start(gated, { gate: "ann" }, { owner: "ann" })).jobId;
  await reach("ann", running, "running");
});
afterAll(async () => {
  await world.close();
});

async function finish(owner: string): Promise<string> {
  const { jobId } = await world.tidings.start(quick, { steps: 2 }, { owner });
  await reach(owner, jobId, "completed");
  return jobId;
}

function reach(owner: string, jobId: string, status: string): Promise<void> {
  return vi.waitFor(async () => expect((await world.tidings.get(owner, jobId)).status).toBe(status));
}

// ── What can be asked ─────────────────────────────────────────────────────────────────────────────────────────────

interface Ask {
  readonly method: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

interface Answer {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: string;
}

/** By hand, because `fetch` chooses `Host` itself and hides how headers were written. */
function send({ method, path, headers = {}, body }: Ask, more: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: world.port, method, path, headers: { ...headers, ...more } };
    request(options, async (res) => {
      let text = "";
      for await (const chunk of res) text += chunk;
      const pairs = res.rawHeaders.flatMap((name, at, all) =>
        at % 2 === 0 && name !== "Date" ? [`${name}: ${all[at + 1]}`] : [],
      );
      // Each message of a session has an id of its own, made up anew.
      const body = text.replace(/^id: [\w-]{22}\.[\w-]{22}$/gm, "id: NEW");
      resolve({ status: res.statusCode ?? 0, headers: pairs, body });
    })
      .on("error", reject)
      .end(body);
  });
}

const JSON_HEADERS = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };

/** A request of 2026-07-28. */
function modernly(method: string, params: Record<string, unknown>): Ask {
  const name = params.name ?? params.uri;
  return {
    method: "POST",
    path: "/mcp",
    headers: {
      ...JSON_HEADERS,
      "MCP-Protocol-Version": MODERN,
      "Mcp-Method": method,
      ...(typeof name === "string" ? { "Mcp-Name": name } : {}),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { _meta: ENVELOPE, ...params } }),
  };
}

/** A request in a 2025 session. */
function inSession(session: string, method: string, params: Record<string, unknown>): Ask {
  return {
    method: "POST",
    path: "/mcp",
    headers: { ...JSON_HEADERS, "Mcp-Session-Id": session },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  };
}

const get = (path: string, headers: Record<string, string> = {}): Ask => ({ method: "GET", path, headers });

/** Everything that names a job. `session` is Bob's own. */
const BY_JOB: Readonly<Record<string, (jobId: string, session: string) => Ask>> = {
  "GET /jobs/{jobId}": (jobId) => get(`/jobs/${jobId}`),
  "HEAD /jobs/{jobId}": (jobId) => ({ method: "HEAD", path: `/jobs/${jobId}` }),
  "GET /jobs/{jobId}/events": (jobId) => get(`/jobs/${jobId}/events`),
  "HEAD /jobs/{jobId}/events": (jobId) => ({ method: "HEAD", path: `/jobs/${jobId}/events` }),
  "POST /jobs/{jobId}/cancel": (jobId) => ({ method: "POST", path: `/jobs/${jobId}/cancel` }),
  "listen, our filter": (jobId) =>
    modernly("subscriptions/listen", { notifications: { "dev.tidings/jobs": { jobIds: [jobId] } } }),
  "listen, resources": (jobId) =>
    modernly("subscriptions/listen", { notifications: { resourceSubscriptions: [`job://${jobId}`] } }),
  "2025 subscribe": (jobId, session) => inSession(session, "resources/subscribe", { uri: `job://${jobId}` }),
  ...Object.fromEntries(
    ["", "/result"].flatMap(
      (part) =>
        [
          [
            `2026 read job://…${part}`,
            (jobId) => modernly("resources/read", { uri: `job://${jobId}${part}` }),
          ],
          [
            `2025 read job://…${part}`,
            (jobId, session) => inSession(session, "resources/read", { uri: `job://${jobId}${part}` }),
          ],
        ] satisfies [string, (jobId: string, session: string) => Ask][],
    ),
  ),
  ...Object.fromEntries(
    ["get_job", "get_job_events", "cancel_job", "retry_job"].flatMap(
      (name) =>
        [
          [`2026 ${name}`, (jobId) => modernly("tools/call", { name, arguments: { jobId } })],
          [
            `2025 ${name}`,
            (jobId, session) => inSession(session, "tools/call", { name, arguments: { jobId } }),
          ],
        ] satisfies [string, (jobId: string, session: string) => Ask][],
    ),
  ),
};

/** Everything that takes a cursor, with a job of Bob's own where one is needed. */
const BY_CURSOR: Readonly<Record<string, (cursor: string, jobId: string, session: string) => Ask>> = {
  "GET /events?after=": (cursor) => get(`/events?after=${cursor}`),
  "GET /events, Last-Event-ID": (cursor) => get("/events", { "Last-Event-ID": cursor }),
  "GET /jobs/{jobId}/events?after=": (cursor, jobId) => get(`/jobs/${jobId}/events?after=${cursor}`),
  "GET /jobs/{jobId}/events, Last-Event-ID": (cursor, jobId) =>
    get(`/jobs/${jobId}/events`, { "Last-Event-ID": cursor }),
  listen: (after) => modernly("subscriptions/listen", { notifications: { "dev.tidings/jobs": { after } } }),
  "2026 get_job_events": (after, jobId) =>
    modernly("tools/call", { name: "get_job_events", arguments: { jobId, after } }),
  "2025 get_job_events": (after, jobId, session) =>
    inSession(session, "tools/call", { name: "get_job_events", arguments: { jobId, after } }),
  "2026 list_my_jobs": (cursor) => modernly("tools/call", { name: "list_my_jobs", arguments: { cursor } }),
  "2025 list_my_jobs": (cursor, _jobId, session) =>
    inSession(session, "tools/call", { name: "list_my_jobs", arguments: { cursor } }),
};

/** Everything that names a 2025 session. */
const BY_SESSION: Readonly<Record<string, (session: string) => Ask>> = {
  "tools/list": (session) => inSession(session, "tools/list", {}),
  "tools/call": (session) => inSession(session, "tools/call", { name: "start_quick", arguments: {} }),
  stream: (session) => get("/mcp", { Accept: "text/event-stream", "Mcp-Session-Id": session }),
  "stream, resumed": (session) =>
    get("/mcp", { Accept: "text/event-stream", "Mcp-Session-Id": session, "Last-Event-ID": "1" }),
  end: (session) => ({ method: "DELETE", path: "/mcp", headers: { "Mcp-Session-Id": session } }),
};

/** An answer without the id that was asked for, which is the asker's own word. */
function without(id: string, { status, headers, body }: Answer) {
  return {
    status,
    headers: headers.map((line) => line.replace(/^Content-Length: .*/, "Content-Length")),
    body: body.replaceAll(id, "ID"),
  };
}

const newId = () => randomBytes(16).toString("base64url");

async function stateOf(owner: string) {
  const { jobs } = await world.tidings.list(owner, { limit: 1_000 });
  const { events, cursor } = await world.tidings.read({ owner, limit: 10_000 });
  return { jobs, events, cursor };
}

// ── Bob asks ──────────────────────────────────────────────────────────────────────────────────────────────────────

describe("security 2: the id of somebody else's job is worth as much as one that was made up", () => {
  it.each(Object.entries(BY_JOB))("%s", async (_operation, ask) => {
    const session = await initialize(world.url, as("bob"));
    const before = await stateOf("ann");
    for (const id of [ended, running]) {
      const foreign = without(id, await send(ask(id, session), as("bob")));
      const madeUp = id.replace(/[^_]*$/, newId());
      const unknown = without(madeUp, await send(ask(madeUp, session), as("bob")));
      expect(foreign).toEqual(unknown);
      expect(foreign.body).not.toMatch(/quick|gated|completed|running/);
    }
    expect(await stateOf("ann")).toEqual(before);
    expect((await stateOf("bob")).jobs.map(({ jobId }) => jobId)).not.toContain(ended);
  });

  it("and Ann is answered by each of them, so it is not that nothing works", async () => {
    const session = await initialize(world.url, as("ann"));
    const jobId = await finish("ann");
    for (const [operation, ask] of Object.entries(BY_JOB)) {
      // An own listen stays open; that it is told its events is seen below.
      if (operation.startsWith("listen")) continue;
      const own = await send(ask(jobId, session), as("ann"));
      const madeUp = newId();
      const unknown = await send(ask(madeUp, session), as("ann"));
      const same = JSON.stringify(without(jobId, own)) === JSON.stringify(without(madeUp, unknown));
      expect([operation, same]).toEqual([operation, false]);
    }
  });
});

describe("security 4 and 7: a cursor of somebody else is refused like one that was never issued", () => {
  it.each(Object.entries(BY_CURSOR))("%s", async (_operation, ask) => {
    const session = await initialize(world.url, as("bob"));
    const own = await finish("bob");
    const { events, cursor: head } = await stateOf("ann");
    const { nextCursor } = await world.tidings.list("ann", { limit: 1 });
    const neverIssued = await send(ask(newId(), own, session), as("bob"));
    expect(neverIssued.body).toContain("BAD_CURSOR");
    for (const cursor of [events.at(0)?.cursor, events.at(-1)?.cursor, head, nextCursor]) {
      expect(await send(ask(String(cursor), own, session), as("bob"))).toEqual(neverIssued);
    }
  });

  it.each(Object.entries(BY_CURSOR))("%s: every changed character is refused", async (operation, ask) => {
    const session = await initialize(world.url, as("bob"));
    const own = await finish("bob");
    const isList = operation.includes("list_my_jobs");
    const good = isList
      ? (await world.tidings.list("bob", { limit: 1 })).nextCursor
      : (await world.tidings.get("bob", own)).cursor;
    if (good === undefined) throw new Error("Bob has one page only.");
    for (let at = 0; at < good.length; at++) {
      const changed = good.slice(0, at) + (good[at] === "A" ? "B" : "A") + good.slice(at + 1);
      expect((await send(ask(changed, own, session), as("bob"))).body).toContain("BAD_CURSOR");
    }
  });
});

describe("FC-23, security 1: somebody else's session is not there", () => {
  it.each(Object.entries(BY_SESSION))("%s", async (_operation, ask) => {
    const session = await initialize(world.url, as("ann"));
    const foreign = await send(ask(session), as("bob"));
    const unknown = await send(ask(newId()), as("bob"));
    expect(foreign.status).toBe(404);
    expect(foreign).toEqual(unknown);
    expect((await send(ask(session))).status).toBe(401);
    expect((await send(inSession(session, "ping", {}), as("ann"))).status).toBe(200);
  });
});

describe("what is pushed", () => {
  const resourceId = "resource:shared";
  const CHANGED = { type: "resource.updated", changeType: "modified", resourceId } as const;

  it("reaches its owner only, on every path, whatever the others listen to", async () => {
    const session = await initialize(world.url, as("bob"));
    const stream = await openStream(world.url, session, as("bob"));
    const log = await openEvents(`${world.url}/events`, { headers: as("bob") });
    const everything = await listen(world.url, { "dev.tidings/jobs": {} }, { headers: as("bob") });
    const named = await listen(
      world.url,
      { "dev.tidings/jobs": { jobIds: [running], correlationId: "shared" } },
      { headers: as("bob") },
    );
    const uris = [`job://${running}`, resourceId];
    const resources = await listen(world.url, { resourceSubscriptions: uris }, { headers: as("bob") });

    const shared = { correlationId: "shared" };
    await world.tidings.publish(CHANGED, { owner: "ann", ...shared });
    const { jobId } = await world.tidings.start(quick, {}, { owner: "ann", correlationId: "shared" });
    await reach("ann", jobId, "completed");
    // What comes after it on the same paths shows that nothing came before.
    await world.tidings.publish(CHANGED, { owner: "bob", ...shared });
    const started = await callTool(world.url, session, "start_quick", {}, as("bob"));

    const firstAfterAck = async ({ next }: { next(): Promise<Message | undefined> }) => {
      expect((await next())?.method).toBe("notifications/subscriptions/acknowledged");
      return JSON.stringify(await next());
    };
    for (const told of [
      JSON.stringify(await log.next()),
      await firstAfterAck(everything),
      await firstAfterAck(named),
      await firstAfterAck(resources),
    ]) {
      expect(told).toContain(resourceId);
    }
    expect(JSON.stringify(await stream.next())).toContain(String(started.jobId));
    for (const { reader } of [stream, everything, named, resources, { reader: log }]) {
      expect(reader.raw).not.toContain(jobId);
      expect(reader.raw).not.toContain(running);
      reader.close();
    }
  });
});

describe("FC-29: the jobs of two users", () => {
  const COUNT = 30;
  let jobs: Record<"una" | "udo", string[]>;
  beforeAll(async () => {
    jobs = { una: [], udo: [] };
    for (let job = 0; job < COUNT; job++) {
      for (const owner of ["una", "udo"] as const) {
        const { jobId } = await world.tidings.start(
          quick,
          { steps: 1 },
          { owner, idempotencyKey: `k${job}` },
        );
        jobs[owner].unshift(jobId);
      }
    }
  });

  it.each([1, 7, 29, 30, 100])("are listed by pages of %i, each user's own and no other's", async (limit) => {
    for (const owner of ["una", "udo"] as const) {
      const listed: string[] = [];
      let cursor: string | undefined;
      do {
        const args = { limit, ...(cursor === undefined ? {} : { cursor }) };
        const { body } = await send(
          modernly("tools/call", { name: "list_my_jobs", arguments: args }),
          as(owner),
        );
        const page = JSON.parse(body).result.structuredContent as {
          jobs: { jobId: string }[];
          nextCursor?: string;
        };
        listed.push(...page.jobs.map(({ jobId }) => jobId));
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      expect(listed).toEqual(jobs[owner]);
    }
  });

  it("are reached from a new session, which is not what they belong to", async () => {
    const jobId = jobs.una[0] ?? "";
    for (const session of [await initialize(world.url, as("una")), await initialize(world.url, as("una"))])
      expect(await callTool(world.url, session, "get_job", { jobId }, as("una"))).toMatchObject({ jobId });
  });

  it("are nobody's without an owner: nothing is found, rather than everything", async () => {
    for (const owner of ["", undefined, null, {}, "*", "%", "una\0", "UNA", "una ", "udo' OR '1'='1"]) {
      const nobody = owner as string;
      await expect(world.tidings.get(nobody, jobs.una[0] ?? "")).rejects.toThrow();
      const list = await world.tidings.list(nobody).catch(() => ({ jobs: [] }));
      expect(list.jobs).toEqual([]);
    }
  });

  it("security 3: have ids with 128 random bits", () => {
    const ids = [...jobs.una, ...jobs.udo];
    for (const id of ids) expect(id).toMatch(/^(?:[a-z]+_)?[\w-]{22,}$/);
    expect(new Set(ids).size).toBe(2 * COUNT);
  });
});

describe("security 5: Host and Origin are each checked alone, on every path, with a valid token", () => {
  const PATHS: Readonly<Record<string, () => Ask>> = {
    ...Object.fromEntries(Object.entries(BY_JOB).map(([name, ask]) => [name, () => ask(ended, "x")])),
    ...Object.fromEntries(Object.entries(BY_SESSION).map(([name, ask]) => [name, () => ask("x")])),
    "GET /events": () => get("/events"),
    preflight: () => ({ method: "OPTIONS", path: "/mcp" }),
  };
  it.each(Object.entries(PATHS))("%s", async (_path, ask) => {
    const host = { Host: "rebound.example" };
    const origin = { Origin: "https://evil.example" };
    for (const wrong of [host, origin, { ...host, ...origin }, { Origin: "null" }]) {
      expect((await send(ask(), { ...as("ann"), ...wrong })).status).toBe(403);
    }
  });
});
