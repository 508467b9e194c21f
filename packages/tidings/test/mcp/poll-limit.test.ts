/** One allowance of questions for each owner, whatever the door. */
import { createManualClock } from "tidings/testing";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { checkPolls } from "../../src/mcp/server/poll-limit.ts";
import { initialize, modern, openStream, post, readMessages } from "./http-mcp.ts";
import type { World } from "./http-world.ts";
import { createWorld, quick } from "./http-world.ts";

const BURST = 10_000;
const BOB = { Authorization: "Bearer bob" };

describe("an owner that has asked without a pause", () => {
  const clock = createManualClock();
  let world: World;
  let session: string;
  let jobId: string;

  beforeEach(async () => {
    world = await createWorld({ clock });
    onTestFinished(() => world.close());
    session = await initialize(world.url);
    ({ jobId } = await world.tidings.start(quick, { steps: 1 }));
    checkPolls(world.tidings, clock, "local", BURST);
  });

  const plain = (path: string, init: RequestInit = {}) => fetch(`${world.url}${path}`, init);
  const tool = async (name: string, args: object) =>
    (await modern(world.url, "tools/call", { name, arguments: args })).json();
  const inSession = async (method: string, params: object) => {
    const body = { jsonrpc: "2.0", id: 1, method, params };
    return readMessages(await post(world.url, body, { "Mcp-Session-Id": session })).next();
  };

  it.each([
    ["GET /jobs/{jobId}", () => plain(`/jobs/${jobId}`)],
    ["GET /jobs/{jobId}/events", () => plain(`/jobs/${jobId}/events`)],
    ["POST /jobs/{jobId}/cancel", () => plain(`/jobs/${jobId}/cancel`, { method: "POST" })],
    ["GET /events", () => plain("/events")],
  ])("is told so by %s", async (_, ask) => {
    const refused = await ask();
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await refused.json()).toMatchObject({
      error: { code: "TOO_MANY_REQUESTS", retryable: true, data: { limit: 200, retryAfterMs: 1_000 } },
    });
  });

  it.each(["get_job", "get_job_events", "cancel_job", "retry_job", "list_my_jobs"])(
    "is told so by the tool %s",
    async (name) => {
      const answer = await tool(name, name === "list_my_jobs" ? {} : { jobId });
      const { error } = answer.result.structuredContent;
      expect(error).toMatchObject({ code: "TOO_MANY_REQUESTS", data: { limit: 200, retryAfterMs: 1_000 } });
    },
  );

  it("is told so by resources, subscriptions, listens and a session's stream", async () => {
    const uri = `job://${jobId}`;
    const data = { code: "TOO_MANY_REQUESTS", limit: 200, retryAfterMs: 1_000 };
    expect(await inSession("resources/read", { uri })).toMatchObject({ error: { data } });
    expect(await inSession("resources/subscribe", { uri })).toMatchObject({ error: { data } });
    const listen = await modern(world.url, "subscriptions/listen", {
      notifications: { resourceSubscriptions: [uri] },
    });
    expect(await listen.json()).toMatchObject({ error: { data } });
    const headers = { Accept: "text/event-stream", "Mcp-Session-Id": session };
    const stream = await plain("/mcp", { headers });
    expect([stream.status, stream.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await stream.json()).toMatchObject({ error: { data } });
  });

  it("may start jobs, which have limits of their own; others may ask; and a second later it may ask again", async () => {
    const started = await tool("start_quick", { steps: 1 });
    expect(started.result.structuredContent).toMatchObject({ jobId: expect.any(String) });
    expect((await plain(`/jobs/${jobId}`, { headers: BOB })).status).toBe(404);
    clock.advance(1_000);
    expect((await plain(`/jobs/${jobId}`)).status).toBe(200);
    const stream = await openStream(world.url, session);
    stream.reader.close();
  });

  it("is asked to wait longer for a listen to many jobs, which costs as many questions", async () => {
    clock.advance(1_000);
    const jobIds = Array.from({ length: 1_000 }, (_, at) => `job_${at}`);
    const listen = await modern(world.url, "subscriptions/listen", {
      notifications: { "dev.tidings/jobs": { jobIds } },
    });
    expect(await listen.json()).toMatchObject({ error: { data: { retryAfterMs: 5_000 } } });
  });
});
