/** Tokens for one job: what they open, and that they open nothing else. */
import { createJobTokens, JOB_TOKEN_META_KEY } from "tidings/mcp";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ManualClock } from "../../src/engine/testing/manual-clock.ts";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { JobToken } from "../../src/mcp/server/job-token.ts";
import { callTool, initialize, modern, post } from "./http-mcp.ts";
import { openEvents } from "./http-reader.ts";
import type { World } from "./http-world.ts";
import { createGate, createWorld, gated, gates, quick } from "./http-world.ts";

const HOUR_MS = 3_600_000;
const ANN = { Authorization: "Bearer ann" };

let clock: ManualClock;
let world: World;
beforeAll(async () => {
  clock = createManualClock();
  world = await createWorld({
    clock,
    heartbeatMs: 10 * HOUR_MS,
    stallMs: 10 * HOUR_MS,
    sessionIdleMs: 100 * HOUR_MS,
    auth: (token) => (/^(?:ann|bob)$/.test(token) ? { token, clientId: token, scopes: [] } : undefined),
  });
});
afterAll(() => world.close());
// Whoever asks too often is slowed down, by this clock too.
beforeEach(() => clock.advance(60_000));

const mint = (jobId: string, options?: Parameters<ReturnType<typeof createJobTokens>["mint"]>[2]): string =>
  createJobTokens(world.tidings, clock).mint("ann", jobId, options).token;

async function finished(): Promise<string> {
  const { jobId } = await world.tidings.start(quick, { steps: 1 }, { owner: "ann" });
  await (await openEvents(`${world.url}/jobs/${jobId}/events`, { headers: ANN })).rest();
  return jobId;
}

const get = (path: string, token: string) =>
  fetch(`${world.url}${path}${path.includes("?") ? "&" : "?"}token=${token}`);

describe("a token for a job", () => {
  it("opens the job's snapshot and its events, in the address or as a bearer token", async () => {
    const jobId = await finished();
    const token = mint(jobId);
    const bearer = { headers: { Authorization: `Bearer ${token}` } };
    const own = await world.tidings.get("ann", jobId);
    expect(await (await get(`/jobs/${jobId}`, token)).json()).toEqual(own);
    expect(await (await fetch(`${world.url}/jobs/${jobId}`, bearer)).json()).toEqual(own);
    const story = await (await openEvents(`${world.url}/jobs/${jobId}/events?token=${token}`)).rest();
    expect(story.at(-1)?.event).toBe("job.completed");
    const rest = await openEvents(
      `${world.url}/jobs/${jobId}/events?after=${story.at(0)?.id}&token=${token}`,
    );
    expect(await rest.rest()).toEqual(story.slice(1));
    expect((await (await openEvents(`${world.url}/jobs/${jobId}/events`, bearer)).rest()).length).toBe(
      story.length,
    );
  });

  it("opens nothing else: not another job of the same owner, not the log, not MCP", async () => {
    const [jobId, other] = [await finished(), await finished()];
    const token = mint(jobId);
    const bearer = { Authorization: `Bearer ${token}` };
    const answers = [
      await get(`/jobs/${other}`, token),
      await get(`/jobs/${other}/events`, token),
      await fetch(`${world.url}/jobs/${other}`, { headers: bearer }),
      await get("/events", token),
      await fetch(`${world.url}/events`, { headers: bearer }),
      await modern(world.url, "tools/list", {}, { headers: bearer }),
      await post(`${world.url}`, { jsonrpc: "2.0", id: 1, method: "ping" }, bearer),
      await fetch(`${world.url}/mcp?token=${token}`, { method: "POST" }),
      await get(`/jobs/unknown`, token),
    ];
    for (const answer of answers) {
      expect(answer.status).toBe(401);
      expect(await answer.text()).not.toContain(token.slice(10));
    }
  });

  it("is never shown to the server's own verifier, which might take it for somebody", async () => {
    const shown: string[] = [];
    const trusting = await createWorld({
      auth(token) {
        shown.push(token);
        return { token, clientId: "anybody", scopes: [] };
      },
    });
    const { token } = createJobTokens(trusting.tidings).mint("ann", "x");
    const headers = { Authorization: `Bearer ${token}` };
    expect((await modern(trusting.url, "tools/list", {}, { headers })).status).toBe(401);
    expect((await fetch(`${trusting.url}/events`, { headers })).status).toBe(401);
    expect(shown).toEqual([]);
    await trusting.close();
  });

  it("is not opened by a user of the same name at another owner's job", async () => {
    const { jobId } = await world.tidings.start(quick, {}, { owner: "bob" });
    expect((await get(`/jobs/${jobId}`, mint(jobId))).status).toBe(404);
  });

  it("is refused with any one bit flipped", async () => {
    const jobId = await finished();
    const token = mint(jobId);
    const tokens = createJobTokens(world.tidings, clock);
    expect(tokens.open(token, jobId)).toMatchObject({ owner: "ann", mayCancel: false });
    const bytes = Buffer.from(token.slice(4), "base64url");
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const damaged = Buffer.from(bytes);
      damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(tokens.open(`tjt_${damaged.toString("base64url")}`, jobId)).toBeUndefined();
    }
    for (let at = 0; at < token.length; at++) {
      for (const other of ["A", "_", "=", "%", " ", "\0"]) {
        if (token[at] === other) continue;
        expect(tokens.open(token.slice(0, at) + other + token.slice(at + 1), jobId)).toBeUndefined();
      }
    }
    for (const text of ["", "tjt_", token.slice(0, -1), `${token}A`, `${token}=`, "x".repeat(1e6)])
      expect(tokens.open(text, jobId)).toBeUndefined();
    expect((await get(`/jobs/${jobId}`, `${token}A`)).status).toBe(401);
  });

  it("is refused from its end on: an hour, or as long as was said", async () => {
    const jobId = await finished();
    const [hour, minute] = [mint(jobId), mint(jobId, { lifetimeMs: 60_000 })];
    const status = async (token: string) => (await get(`/jobs/${jobId}`, token)).status;
    clock.advance(59_999);
    expect([await status(hour), await status(minute)]).toEqual([200, 200]);
    clock.advance(1);
    expect([await status(hour), await status(minute)]).toEqual([200, 401]);
    clock.advance(HOUR_MS);
    expect([await status(hour), await status(minute)]).toEqual([401, 401]);
  });

  it("stops the job only if it was made for that", async () => {
    const gate = createGate();
    gates.set("token", gate);
    const { jobId } = await world.tidings.start(gated, { gate: "token" }, { owner: "ann" });
    const cancel = (token: string) =>
      fetch(`${world.url}/jobs/${jobId}/cancel?token=${token}`, { method: "POST" });
    const refused = await cancel(mint(jobId));
    expect(refused.status).toBe(403);
    expect(refused.headers.get("www-authenticate")).toMatch(/insufficient_scope/);
    expect(await world.tidings.get("ann", jobId)).not.toMatchObject({ status: "canceled" });
    const canceled = await cancel(mint(jobId, { mayCancel: true }));
    expect([canceled.status, await canceled.json()]).toEqual([
      200,
      expect.objectContaining({ jobId, status: "canceled" }),
    ]);
    expect((await fetch(`${world.url}/jobs/${jobId}/cancel?token=${mint(jobId)}`)).status).toBe(405);
  });

  it("is good in every process of the same store, and in none of another", async () => {
    const jobId = await finished();
    const token = mint(jobId);
    const second = await createWorld({ clock, store: "memory:" });
    expect(createJobTokens(second.tidings, clock).open(token, jobId)).toBeUndefined();
    await second.close();
    expect(createJobTokens({ ...world.tidings }, clock).open(token, jobId)).toMatchObject({ owner: "ann" });
  });

  it("stands in no error and in no line for the operator", async () => {
    const broken = await createWorld({
      wrap: (tidings) => ({ ...tidings, get: () => Promise.reject(new Error("The disk is gone.")) }),
    });
    const token = createJobTokens(broken.tidings).mint("local", "x").token;
    const answer = await fetch(`${broken.url}/jobs/x?token=${token}`);
    expect(answer.status).toBe(500);
    expect(await answer.text()).not.toContain(token);
    expect(broken.errors.map(String)).toEqual(["Error: The disk is gone."]);
    await broken.close();
  });
});

describe("where a token comes from", () => {
  interface Answer {
    readonly content: unknown;
    readonly structuredContent: { readonly jobId: string };
    readonly _meta?: Record<string, unknown>;
  }

  const called = async (url: string, name: string, args: object, headers: Record<string, string> = {}) => {
    const response = await modern(url, "tools/call", { name, arguments: args }, { headers });
    return ((await response.json()) as { result: Answer }).result;
  };

  function tokenIn({ _meta }: Answer): JobToken {
    const carried = _meta?.[JOB_TOKEN_META_KEY];
    if (carried === undefined) throw new Error("The answer carries no token.");
    return carried as JobToken;
  }

  it("the start, retry_job and get_job carry one in `_meta`, where no model looks", async () => {
    const started = await called(world.url, "start_quick", { steps: 1 }, ANN);
    const { jobId } = started.structuredContent;
    await (await openEvents(`${world.url}/jobs/${jobId}/events`, { headers: ANN })).rest();
    const looked = await called(world.url, "get_job", { jobId }, ANN);
    const retried = await called(world.url, "retry_job", { jobId }, ANN);
    for (const answer of [started, looked, retried]) {
      const { token, expiresAt } = tokenIn(answer);
      expect(Date.parse(expiresAt)).toBe(clock.now() + HOUR_MS);
      expect((await get(`/jobs/${answer.structuredContent.jobId}`, token)).status).toBe(200);
      expect(JSON.stringify([answer.content, answer.structuredContent])).not.toContain(token);
    }
    const listed = await called(world.url, "list_my_jobs", {}, ANN);
    expect(JSON.stringify(listed)).not.toContain("tjt_");
  });

  it("in a 2025 session too", async () => {
    const session = await initialize(world.url, ANN);
    const { jobId } = await callTool(world.url, session, "start_quick", {}, ANN);
    const response = await post(
      world.url,
      { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "get_job", arguments: { jobId } } },
      { ...ANN, "Mcp-Session-Id": session },
    );
    expect(await response.text()).toContain(`"${JOB_TOKEN_META_KEY}":{"token":"tjt_`);
  });

  it("nobody needs one where nobody signs in, and a failure carries none", async () => {
    const open = await createWorld();
    const { _meta } = await called(open.url, "start_quick", {});
    expect(_meta?.[JOB_TOKEN_META_KEY]).toBeUndefined();
    await open.close();
    expect(JSON.stringify(await called(world.url, "get_job", { jobId: "unknown" }, ANN))).not.toContain(
      "tjt_",
    );
  });
});
