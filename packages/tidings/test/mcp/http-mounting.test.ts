/** The handler inside other people's servers. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { McpServerFactory } from "@modelcontextprotocol/server";
import { McpServer } from "@modelcontextprotocol/server";
import { afterEach, describe, expect, it } from "vitest";
import type { HttpHandler } from "../../src/mcp/server/http-handler.ts";
import { createHttpHandler } from "../../src/mcp/server/http-handler.ts";
import type { OwnerOf } from "../../src/mcp/server/owner.ts";
import { ownerOfRequest, registerJob } from "../../src/mcp/server/register-job.ts";
import { sendError } from "../../src/mcp/server/send-error.ts";
import { TidingsError } from "../../src/model/error.ts";
import { createTidings } from "../../src/runtime/create-tidings.ts";
import type { Tidings } from "../../src/runtime/tidings.ts";
import { initialize, listen, modern } from "./http-mcp.ts";
import { openEvents } from "./http-reader.ts";
import { quick, serverFactory } from "./http-world.ts";

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** @param mount - How the framework hands a request over. */
async function serve(
  mount: (handler: HttpHandler) => Parameters<typeof createServer>[1],
  options: { mcpPath?: string; jobsPath?: string; eventsPath?: string } = {},
) {
  const tidings = await createTidings({ store: "memory:", jobs: [quick] });
  const handler = createHttpHandler(tidings, { server: serverFactory(tidings), ...options });
  const server = createServer(mount(handler) as never);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(
    () => tidings.close(),
    () => new Promise((resolve) => server.close(resolve)),
    async () => server.closeAllConnections(),
    () => handler.close(),
  );
  return { tidings, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function readBody(req: AsyncIterable<Buffer>): Promise<unknown> {
  let text = "";
  for await (const chunk of req) text += chunk;
  return text === "" ? undefined : JSON.parse(text);
}

const frameworks: Record<string, (handler: HttpHandler) => Parameters<typeof createServer>[1]> = {
  "a body parser that sets req.body": (handler) => async (req, res) => {
    Object.assign(req, { body: await readBody(req) });
    await handler.handle(req, res);
  },
  "a framework that hands the parsed body over": (handler) => async (req, res) => {
    await handler.handle(req, res, await readBody(req));
  },
};

it.each(Object.entries(frameworks))("works behind %s, in both generations", async (_, mount) => {
  const { url } = await serve(mount);
  const called = await modern(url, "tools/call", { name: "start_quick", arguments: { steps: 1 } });
  expect(called.status).toBe(200);
  expect(await called.json()).toMatchObject({ result: { structuredContent: { status: "pending" } } });
  expect(await initialize(url)).toMatch(/./);
  const listening = await listen(url, { "dev.tidings/jobs": {} });
  expect((await listening.next())?.method).toBe("notifications/subscriptions/acknowledged");
  listening.reader.close();
});

it("serves at other paths when told so", async () => {
  const { tidings, url } = await serve((handler) => (req, res) => void handler.handle(req, res), {
    jobsPath: "/api/jobs",
    eventsPath: "/api/events",
  });
  const { jobId } = await tidings.start(quick, { steps: 1 });
  const frames = await (await openEvents(`${url}/api/jobs/${jobId}/events`)).rest();
  expect(frames.at(-1)?.event).toBe("job.completed");
});

it("an address of the application's own fails like ours: status, shape, and the operator hears of what is unexpected", async () => {
  const heard: [unknown, string][] = [];
  const bug = new Error("at /srv/app.ts:12");
  const failures: Record<string, unknown> = {
    "/bug": bug,
    "/busy": new TidingsError("STORE_BUSY", 'The store "/srv/jobs.db" was held.'),
    "/big": new TidingsError("PAYLOAD_TOO_LARGE", "Too much."),
    "/own": new TidingsError("SOLD_OUT", "Nothing is left.", { hint: "Come again." }),
  };
  const { url } = await serve(() => (req, res) => {
    sendError(res, failures[req.url ?? ""], (...report) => heard.push(report));
  });
  const answers = new Map<string, [number, string]>();
  for (const path of Object.keys(failures)) {
    const answer = await fetch(url + path);
    answers.set(path, [answer.status, (await answer.json()).error.code]);
  }
  expect(Object.fromEntries(answers)).toEqual({
    "/bug": [500, "INTERNAL"],
    "/busy": [503, "STORE_BUSY"],
    "/big": [413, "PAYLOAD_TOO_LARGE"],
    "/own": [400, "SOLD_OUT"],
  });
  expect(heard).toEqual([
    [bug, "GET /bug"],
    [failures["/busy"], "GET /busy"],
  ]);
});

describe("whose request it is", () => {
  const ownerOf: OwnerOf = () => "ann";

  function createServers(tidings: Tidings, owner?: OwnerOf): McpServerFactory {
    return () => {
      const server = new McpServer({ name: "owned", version: "1.0.0" });
      registerJob(server, tidings, quick, { tool: "start_quick", ...(owner === undefined ? {} : { owner }) });
      server.registerTool("whose", {}, (context) => ({
        content: [{ type: "text", text: ownerOfRequest(server, context) }],
      }));
      return server;
    };
  }

  async function serveOwned(owner?: OwnerOf) {
    const tidings = await createTidings({ store: "memory:", jobs: [quick] });
    const errors: unknown[] = [];
    const handler = createHttpHandler(tidings, {
      server: createServers(tidings, owner),
      owner: ownerOf,
      onError: (error) => errors.push(error),
    });
    const server = createServer((req, res) => void handler.handle(req, res));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    cleanups.push(
      () => tidings.close(),
      () => new Promise((resolve) => server.close(resolve)),
      async () => server.closeAllConnections(),
      () => handler.close(),
    );
    return { tidings, errors, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }

  it("is what the handler says, for jobs, for the server's own tools and for plain addresses", async () => {
    const { tidings, url } = await serveOwned();
    const started = await modern(url, "tools/call", { name: "start_quick", arguments: { steps: 1 } });
    const { jobId } = (await started.json()).result.structuredContent;
    expect(await tidings.get("ann", jobId)).toMatchObject({ jobId });
    expect((await fetch(`${url}/jobs/${jobId}`)).status).toBe(200);
    const whose = await modern(url, "tools/call", { name: "whose", arguments: {} });
    expect((await whose.json()).result.content).toEqual([{ type: "text", text: "ann" }]);
  });

  it("cannot be answered in two ways: a server with another owner is refused", async () => {
    const { errors, url } = await serveOwned(() => "bob");
    const refused = await modern(url, "tools/call", { name: "start_quick", arguments: { steps: 1 } });
    expect(refused.status).toBe(500);
    expect(errors).toContainEqual(expect.objectContaining({ code: "BAD_DEFINITION" }));
  });
});
