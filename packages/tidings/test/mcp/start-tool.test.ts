import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import type { Tidings } from "tidings";
import { createTidings, defineJob, TidingsError } from "tidings";
import { registerJob } from "tidings/mcp";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import type { Connection } from "./support.ts";
import { call, connect, count, createCountServer, ended, gate, openTidings, storyOf } from "./support.ts";

describe("a tool that starts a job", () => {
  let tidings: Tidings;
  let connection: Connection;
  const start = (args?: Record<string, unknown>) => call(connection.client, "start_count", args);

  beforeEach(async () => {
    tidings = await openTidings("memory:");
    connection = await connect(() => createCountServer(tidings));
  });

  it("answers with jobId, status and cursor, as structure and as text, while the job has not run", async () => {
    const { content } = await start({ gate: "start" });
    expect(content).toEqual({
      jobId: expect.stringMatching(/^count_[0-9A-Za-z_-]{22}$/),
      status: "pending",
      cursor: expect.stringMatching(/^[!-~]+$/),
    });
    expect((await tidings.get("local", content.jobId)).status).not.toBe("completed");
    gate("start").open();
    await ended(tidings, content.jobId);
  });

  it("answers with a cursor after which the whole story stands, from job.created on", async () => {
    const { jobId, cursor } = (await start()).content;
    await ended(tidings, jobId);
    const { events } = await tidings.read({ owner: "local", jobIds: [jobId], after: cursor });
    expect(events[0]?.event).toMatchObject({ type: "job.created", seq: 1 });
    expect(events).toEqual(await storyOf(tidings, jobId));
  });

  it("advertises the job's own input and the two fields of every start", async () => {
    const { tools } = await connection.client.listTools();
    const listed = tools.find(({ name }) => name === "start_count");
    expect(listed?.description).toBe("Counts.");
    expect(listed?.inputSchema).toMatchObject({
      type: "object",
      properties: {
        to: { type: "integer", minimum: 1, maximum: 10_000, default: 4 },
        idempotencyKey: { type: "string", minLength: 1, maxLength: 512, description: expect.any(String) },
        correlationId: { type: "string", maxLength: 512, description: expect.any(String) },
      },
    });
    expect(listed?.inputSchema.required ?? []).not.toContain("idempotencyKey");
    expect(tools.map(({ name }) => name).toSorted()).toEqual([
      "cancel_job",
      "get_job",
      "get_job_events",
      "list_my_jobs",
      "retry_job",
      "start_count",
    ]);
  });

  it("repeats the correlationId on every event and in the list", async () => {
    const { jobId } = (await start({ correlationId: "wörkflow/7" })).content;
    await ended(tidings, jobId);
    const story = await storyOf(tidings, jobId);
    expect(story.every(({ event }) => event.correlationId === "wörkflow/7")).toBe(true);
    const listed = await call(connection.client, "list_my_jobs", { correlationId: "wörkflow/7" });
    expect(listed.content.jobs).toMatchObject([{ jobId, correlationId: "wörkflow/7" }]);
  });

  it.each([
    [{ to: "many" }, "to"],
    [{ to: 0 }, "to"],
    [{ correlationId: 7 }, "correlationId"],
    [{ correlationId: "x".repeat(513) }, "correlationId"],
    [{ idempotencyKey: "" }, "idempotencyKey"],
    [{ idempotencyKey: "x".repeat(513) }, "idempotencyKey"],
  ])("refuses %j as BAD_INPUT, names the field and starts nothing", async (args, field) => {
    const { isError, content } = await start(args);
    expect(isError).toBe(true);
    expect(content).toEqual({
      error: {
        code: "BAD_INPUT",
        message: expect.stringContaining(field),
        hint: expect.any(String),
        retryable: false,
      },
    });
    expect((await tidings.list("local")).jobs).toEqual([]);
  });

  it("takes texts of exactly the greatest length, counted in characters", async () => {
    const { isError } = await start({ correlationId: "🎁".repeat(512), idempotencyKey: "🎁".repeat(512) });
    expect(isError).toBe(false);
  });

  it("is not led astray by names of prototypes", async () => {
    const args = JSON.parse('{"__proto__": {"to": "many"}, "constructor": 1, "toString": "x"}');
    expect((await start(args)).isError).toBe(false);
  });

  describe("with an idempotency key (FC-41)", () => {
    it("starts one job for 100 parallel calls, and answers alike in all of them", async () => {
      const calls = Array.from({ length: 100 }, () => start({ to: 3, idempotencyKey: "once" }));
      const ids = new Set((await Promise.all(calls)).map(({ content }) => content.jobId));
      expect(ids.size).toBe(1);
      expect((await tidings.list("local")).jobs).toHaveLength(1);
    });

    it("answers with the same job after its end, good or bad, with reordered arguments too", async () => {
      for (const fail of [false, true]) {
        const idempotencyKey = `again-${fail}`;
        const first = (await start({ to: 3, fail, idempotencyKey })).content;
        await ended(tidings, first.jobId);
        const second = (await start({ idempotencyKey, fail, to: 3 })).content;
        expect(second).toEqual({ ...first, status: fail ? "failed" : "completed" });
      }
    });

    it("refuses the key with other arguments, and starts nothing", async () => {
      await start({ to: 3, idempotencyKey: "k" });
      const { isError, content } = await start({ to: 4, idempotencyKey: "k" });
      expect(isError).toBe(true);
      expect(content.error).toMatchObject({ code: "IDEMPOTENCY_CONFLICT", retryable: false });
      expect((await tidings.list("local")).jobs).toHaveLength(1);
    });

    it("compares keys exactly: case, blanks and spelling of an accent matter", async () => {
      const keys = ["key", "Key", "key ", " key", "ke\u0301y", "k\u00e9y"];
      const ids = new Set<string>();
      for (const idempotencyKey of keys) ids.add((await start({ idempotencyKey })).content.jobId);
      expect(ids.size).toBe(keys.length);
    });

    it("gives another owner a job of his own", async () => {
      let owner = "ann";
      const { client } = await connect(() => {
        const server = new McpServer({ name: "counting", version: "1.0.0" });
        registerJob(server, tidings, count, { tool: "start_count", owner: () => owner });
        return server;
      });
      const anns = (await call(client, "start_count", { idempotencyKey: "mine" })).content.jobId;
      owner = "bob";
      const bobs = (await call(client, "start_count", { idempotencyKey: "mine" })).content.jobId;
      expect(bobs).not.toBe(anns);
    });
  });

  it("answers for an unknown and a foreign job alike", async () => {
    const foreign = (await tidings.start(count, { to: 1 }, { owner: "ann" })).jobId;
    for (const name of ["get_job", "get_job_events", "cancel_job", "retry_job"]) {
      const unknown = await call(connection.client, name, { jobId: "count_AAAAAAAAAAAAAAAAAAAAAA" });
      const other = await call(connection.client, name, { jobId: foreign });
      expect(other).toEqual(unknown);
      expect(other.content.error.code).toBe("JOB_NOT_FOUND");
    }
    const errors = await Promise.all(
      [foreign, "count_AAAAAAAAAAAAAAAAAAAAAA"].map((jobId) =>
        connection.client
          .readResource({ uri: `job://${jobId}` })
          .catch((error) => [error.code, Object.keys(error.data)]),
      ),
    );
    expect(errors[0]).toEqual(errors[1]);
  });
});

describe("a tool whose arguments differ from the job's input", () => {
  const greet = defineJob("greet", {
    input: z.object({ people: z.array(z.string()).min(1) }),
    run: ({ people }) => ({ result: people.map((name) => `Hello ${name}`) }),
  });

  async function connectGreeter(prepare: (args: { names: string }) => { people: string[] }) {
    const tidings = await createTidings({ store: "memory:", jobs: [greet] });
    onTestFinished(() => tidings.close());
    const { client } = await connect(() => {
      const server = new McpServer({ name: "greeting", version: "1.0.0" });
      server.server.onerror = () => {};
      registerJob(server, tidings, greet, {
        tool: "greet",
        input: z.object({ names: z.string().min(1) }),
        prepare,
      });
      return server;
    });
    return { tidings, client };
  }

  it("validates the arguments by their own schema, and hands the prepared input to the job", async () => {
    const { tidings, client } = await connectGreeter(({ names }) => ({ people: names.split(",") }));
    expect((await call(client, "greet", { names: "" })).content.error.code).toBe("BAD_INPUT");
    const { jobId } = (await call(client, "greet", { names: "Ann,Bob" })).content;
    await ended(tidings, jobId);
    expect(await tidings.result("local", jobId)).toEqual(["Hello Ann", "Hello Bob"]);
  });

  it("tells the caller an error of the preparation as it is", async () => {
    const { client } = await connectGreeter(() => {
      throw new TidingsError("UPLOAD_NOT_FOUND", "There is no upload u1.", {
        hint: "Upload the file again.",
      });
    });
    const { isError, content } = await call(client, "greet", { names: "Ann" });
    expect(isError).toBe(true);
    expect(content.error).toEqual({
      code: "UPLOAD_NOT_FOUND",
      message: "There is no upload u1.",
      hint: "Upload the file again.",
      retryable: false,
    });
  });

  it("tells nothing of an unexpected error but that it happened", async () => {
    const { client } = await connectGreeter(() => {
      throw new Error("connect ECONNREFUSED user:secret@10.0.0.1");
    });
    const { isError, content } = await call(client, "greet", { names: "Ann" });
    expect(isError).toBe(true);
    expect(content.error).toMatchObject({ code: "INTERNAL", retryable: true });
    expect(JSON.stringify(content)).not.toMatch(/secret|ECONNREFUSED|at .*\.ts/);
  });
});

describe("registerJob", () => {
  it("adds the shared tools once, however many jobs there are, and keeps the server's own tools", async () => {
    const other = defineJob("other", { input: z.object({}), run: () => undefined });
    const tidings = await createTidings({ store: "memory:", jobs: [count, other] });
    onTestFinished(() => tidings.close());
    const { client } = await connect(() => {
      const server = createCountServer(tidings);
      server.registerTool("own", {}, () => ({ content: [{ type: "text", text: "mine" }] }));
      registerJob(server, tidings, other, {
        tool: "start_other",
        title: "Other",
        meta: { ui: { resourceUri: "ui://x" } },
      });
      return server;
    });
    const { tools } = await client.listTools();
    expect(tools).toHaveLength(8);
    expect(tools.find(({ name }) => name === "start_other")).toMatchObject({
      title: "Other",
      _meta: { ui: { resourceUri: "ui://x" } },
    });
    expect((await client.callTool({ name: "own" })).content).toEqual([{ type: "text", text: "mine" }]);
  });

  it("refuses an input that uses the name of a field of every start", async () => {
    const clash = defineJob("clash", {
      input: z.object({ correlationId: z.string() }),
      run: () => undefined,
    });
    const tidings = await openTidings("memory:");
    const server = new McpServer({ name: "s", version: "1" });
    expect(() => registerJob(server, tidings, clash, { tool: "clash" })).toThrow(/"correlationId"/);
  });

  it("refuses a server that is connected already, with what to do", async () => {
    const tidings = await openTidings("memory:");
    const server = new McpServer({ name: "s", version: "1" });
    await server.connect(InMemoryTransport.createLinkedPair()[0]);
    expect(() => registerJob(server, tidings, count, { tool: "c" })).toThrow(
      expect.objectContaining({ code: "BAD_DEFINITION", hint: expect.stringContaining("before") }),
    );
  });

  it("refuses two owners on one server", async () => {
    const tidings = await openTidings("memory:");
    const server = createCountServer(tidings);
    expect(() => registerJob(server, tidings, count, { tool: "again", owner: () => "x" })).toThrow(/owner/);
  });

  it("leaves a server's own subscriptions alone", async () => {
    const tidings = await openTidings("memory:");
    const seen: string[] = [];
    const { client } = await connect(() => {
      const server = new McpServer(
        { name: "s", version: "1" },
        { capabilities: { resources: { subscribe: true } } },
      );
      server.server.setRequestHandler("resources/subscribe", ({ params }) => {
        seen.push(params.uri);
        return {};
      });
      registerJob(server, tidings, count, { tool: "start_count" });
      return server;
    });
    await client.subscribeResource({ uri: "own:thing" });
    expect(seen).toEqual(["own:thing"]);
  });
});
