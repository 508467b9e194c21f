/** What others rely on, sentence by sentence, from outside: names, shapes and codes of GiftGenius' tools and routes. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { follow } from "tidings/client";
import { mcpSource } from "tidings/mcp/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ServerProcess } from "../../src/demo/server-process.ts";
import { startServer } from "../../src/demo/server-process.ts";
import { connectModern, readSse } from "./paths.ts";

const CURSOR = expect.stringMatching(/^[!-~]+$/);
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

const FILE = [
  "employee_id,full_name,email,department,interests,budget",
  "1,Ana Ruiz,ana@example.com,Sales,chess|hiking,60",
  "2,Bo Lin,bo@example.com,IT,coffee;jazz,",
  "3,Bo Lin, BO@example.com ,IT,coffee,20",
  ",,,,,",
  "",
  "4,Cy Day,,Legal,tea,20",
  '5,Di Fox,di@example.com,Legal,"tea, quantum basket weaving",35.50',
].join("\n");

let folder: string;
let server: ServerProcess;
let client: Client;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
  server = await startServer({ TIDINGS_STORE: `sqlite:${join(folder, "g.db")}`, PORT: "0" });
  client = await connectModern(server.url);
});
afterAll(async () => {
  await client.close();
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

type Json = Record<string, unknown>;

/** Calls a tool; asserts that the text says the same as the structured content. */
async function call(name: string, args: object): Promise<Json & { readonly isError: boolean }> {
  const { structuredContent, content, isError } = await client.callTool({ name, arguments: args as Json });
  expect(JSON.parse((content as { text: string }[])[0]?.text ?? "")).toEqual(structuredContent);
  return { ...(structuredContent as Json), isError: isError === true };
}

async function codeOf(name: string, args: object): Promise<unknown> {
  const { isError, error } = await call(name, args);
  expect(isError).toBe(true);
  expect(error).toEqual({
    code: expect.any(String),
    message: expect.any(String),
    retryable: expect.any(Boolean),
    ...((error as Json).hint === undefined ? {} : { hint: expect.any(String) }),
    ...((error as Json).data === undefined ? {} : { data: { limit: expect.any(Number) } }),
  });
  return (error as Json).code;
}

/** Starts an analysis and waits for its end. */
async function run(args: object): Promise<string> {
  const { jobId } = await call("start_bulk_gift_analysis", args);
  for await (const _ of follow({ source: mcpSource(client), jobId: jobId as string }));
  return jobId as string;
}

async function upload(body: string | Uint8Array): Promise<{ status: number; body: Json }> {
  const response = await fetch(`${server.url}/uploads`, { method: "POST", body: body as BodyInit });
  return { status: response.status, body: (await response.json()) as Json };
}

async function readJson(uri: string): Promise<Json> {
  const { contents } = await client.readResource({ uri });
  return JSON.parse((contents[0] as { text: string }).text) as Json;
}

describe("start_bulk_gift_analysis", () => {
  test("answers at once with jobId, status and a cursor that replays everything", async () => {
    const answer = await call("start_bulk_gift_analysis", {
      csv: FILE,
      defaultBudget: 49.9,
      correlationId: "c-1",
    });
    expect(answer).toEqual({
      jobId: expect.stringMatching(/^bulk_[0-9A-Za-z_-]{22,}$/),
      status: "pending",
      cursor: CURSOR,
      isError: false,
    });
    const { events } = await call("get_job_events", {
      jobId: answer.jobId,
      after: answer.cursor,
      waitSeconds: 5,
    });
    expect((events as Json[])[0]).toMatchObject({ type: "job.created", seq: 1, correlationId: "c-1" });
  });

  test("one key and the same arguments are one job, in parallel too; other arguments are a conflict", async () => {
    const args = { csv: FILE, defaultBudget: 30, idempotencyKey: "key" };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => call("start_bulk_gift_analysis", args)),
    );
    expect(new Set(answers.map(({ jobId }) => jobId)).size).toBe(1);
    expect(await codeOf("start_bulk_gift_analysis", { ...args, locale: "fr" })).toBe("IDEMPOTENCY_CONFLICT");
    const other = await call("start_bulk_gift_analysis", { ...args, idempotencyKey: "key " });
    expect(other.jobId).not.toBe(answers[0]?.jobId);
    // The same content by upload is the same input.
    const { uploadId } = (await upload(FILE)).body;
    const uploaded = await call("start_bulk_gift_analysis", {
      uploadId,
      defaultBudget: 30,
      idempotencyKey: "key",
    });
    expect(uploaded.jobId).toBe(answers[0]?.jobId);
  });

  test.each([
    ["neither csv nor uploadId", {}, "BAD_INPUT"],
    ["both", { csv: FILE, uploadId: "upl_x" }, "BAD_INPUT"],
    ["six gifts", { csv: FILE, giftsPerEmployee: 6 }, "BAD_INPUT"],
    ["no gift", { csv: FILE, giftsPerEmployee: 0 }, "BAD_INPUT"],
    ["a language that does not exist", { csv: FILE, locale: "xx" }, "BAD_INPUT"],
    ["a currency that does not exist", { csv: FILE, currency: "XXX" }, "BAD_INPUT"],
    ["a budget of nothing", { csv: FILE, defaultBudget: 0 }, "BAD_INPUT"],
    ["a budget as text", { csv: FILE, defaultBudget: "49.90" }, "BAD_INPUT"],
    ["a field that does not exist", { csv: FILE, budget: 3 }, "BAD_INPUT"],
    ["an unknown upload", { uploadId: "upl_AAAAAAAAAAAAAAAAAAAAAAAA" }, "UPLOAD_NOT_FOUND"],
    ["more than 1 MB of csv", { csv: "x".repeat(1024 * 1024 + 1) }, "PAYLOAD_TOO_LARGE"],
  ])("refuses %s", async (_what, args, code) => {
    expect(await codeOf("start_bulk_gift_analysis", args)).toBe(code);
  });
});

describe("the result", () => {
  test("counts every record, reports every refusal, keeps every gift within the budget", async () => {
    const jobId = await run({
      csv: FILE,
      defaultBudget: 49.9,
      giftsPerEmployee: 2,
      locale: "es",
      currency: "EUR",
    });
    const result = await readJson(`resource:gifts:${jobId}`);
    expect(result).toEqual({
      jobId,
      currency: "EUR",
      counts: { total: 5, accepted: 3, rejected: 2, warnings: 1 },
      totals: { employees: 3, gifts: 6, firstChoiceCents: expect.any(Number) },
      warnings: [{ record: 5, line: 8, code: "UNKNOWN_INTEREST", message: expect.any(String) }],
      rejected: [
        { record: 3, line: 4, code: "DUPLICATE_PERSON", message: expect.any(String) },
        { record: 4, line: 7, code: "NO_EMAIL", message: expect.any(String) },
      ],
      recommendations: expect.any(Array),
    });
    const recommendations = result.recommendations as (Json & {
      budgetCents: number;
      gifts: (Json & { priceCents: number })[];
    })[];
    expect(recommendations.map(({ email, budgetCents }) => [email, budgetCents])).toEqual([
      ["ana@example.com", 6000],
      ["bo@example.com", 4990],
      ["di@example.com", 3550],
    ]);
    for (const { budgetCents, gifts } of recommendations) {
      expect(gifts.length).toBe(2);
      for (const gift of gifts) {
        expect(gift).toEqual({
          sku: expect.any(String),
          title: expect.any(String),
          priceCents: expect.any(Number),
          category: expect.any(String),
          reason: expect.any(String),
        });
        expect(gift.priceCents).toBeLessThanOrEqual(budgetCents);
      }
    }
    const firstChoices = recommendations.reduce((sum, { gifts }) => sum + (gifts[0]?.priceCents ?? 0), 0);
    expect((result.totals as Json).firstChoiceCents).toBe(firstChoices);
    expect((await call("get_job", { jobId })).counts).toEqual(result.counts);
  });

  test("is paged by get_gift_recommendations, each person once; its cursors are good for that job only", async () => {
    const jobId = await run({ csv: FILE, defaultBudget: 49.9 });
    const first = await call("get_gift_recommendations", { jobId, limit: 2 });
    expect(first).toMatchObject({ total: 3, complete: true, nextCursor: CURSOR });
    const second = await call("get_gift_recommendations", { jobId, limit: 2, cursor: first.nextCursor });
    expect(second).not.toHaveProperty("nextCursor");
    const emails = [...(first.recommendations as Json[]), ...(second.recommendations as Json[])].map(
      ({ email }) => email,
    );
    expect(emails).toEqual(["ana@example.com", "bo@example.com", "di@example.com"]);
    const other = await run({ csv: FILE, defaultBudget: 20 });
    expect(await codeOf("get_gift_recommendations", { jobId: other, cursor: first.nextCursor })).toBe(
      "BAD_CURSOR",
    );
    expect(await codeOf("get_gift_recommendations", { jobId, limit: "all" })).toBe("BAD_INPUT");
    expect(await codeOf("get_gift_recommendations", { jobId: "bulk_unknown" })).toBe("JOB_NOT_FOUND");
    const { jobId: feed } = await call("refresh_product_feed", {});
    expect(await codeOf("get_gift_recommendations", { jobId: feed })).toBe("BAD_INPUT");
  });

  test.each([
    ["an empty file", "", "EMPTY_FILE"],
    ["a header and nothing else", "email,budget\n", "NO_EMPLOYEES"],
    ["no column of addresses", "name,budget\nAda,20\n", "NO_EMAIL_COLUMN"],
  ])("%s ends the job with a code and a hint", async (_what, csv, code) => {
    const jobId = await run({ csv, defaultBudget: 20 });
    expect(await call("get_job", { jobId })).toMatchObject({
      status: "failed",
      error: { code, message: expect.any(String), hint: expect.any(String), retryable: false },
      counts: { total: 0, accepted: 0, rejected: 0, warnings: 0 },
    });
    await expect(client.readResource({ uri: `resource:gifts:${jobId}` })).rejects.toMatchObject({
      code: -32602,
    });
  });
});

describe("the tools of every job", () => {
  test("get_job has all its fields; cancel_job of an ended job answers with its ending, unchanged", async () => {
    const jobId = await run({ csv: FILE, defaultBudget: 49.9, correlationId: "c-2" });
    const job = await call("get_job", { jobId });
    expect(job).toMatchObject({
      jobId,
      jobType: "bulk_gift_analysis",
      status: "completed",
      percentage: 100,
      stage: expect.any(String),
      stageKey: "assemble",
      attempt: 1,
      counts: { total: 5, accepted: 3, rejected: 2, warnings: 1 },
      createdAt: TIME,
      startedAt: TIME,
      endedAt: TIME,
      summary: "3 employees, 9 gifts",
      resultResourceId: `resource:gifts:${jobId}`,
      correlationId: "c-2",
      cursor: CURSOR,
    });
    expect(await call("cancel_job", { jobId, reason: "too late" })).toEqual(job);
    expect(await (await fetch(`${server.url}/jobs/${jobId}`)).json()).toEqual({ ...job, isError: undefined });
    expect(await readJson(`job://${jobId}`)).toEqual({ ...job, isError: undefined });
  });

  test("retry_job starts a successor that both know of; asked twice, it is the same one", async () => {
    const jobId = await run({ csv: "", defaultBudget: 20 });
    const answer = await call("retry_job", { jobId });
    expect(answer).toEqual({
      jobId: expect.stringMatching(/^bulk_/),
      status: "pending",
      cursor: CURSOR,
      isError: false,
    });
    expect((await call("retry_job", { jobId })).jobId).toBe(answer.jobId);
    expect(await call("get_job", { jobId })).toMatchObject({ status: "failed", retriedAs: answer.jobId });
    expect(await call("get_job", { jobId: answer.jobId })).toMatchObject({ retryOf: jobId });
  });

  test("list_my_jobs is newest first, by status, by correlation, page by page", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1)
      ids.unshift(await run({ csv: FILE, defaultBudget: 20, correlationId: "list" }));
    const listed: unknown[] = [];
    let cursor: unknown;
    do {
      const page = await call("list_my_jobs", {
        correlationId: "list",
        limit: 2,
        ...(cursor === undefined ? {} : { cursor }),
      });
      listed.push(...(page.jobs as Json[]).map(({ jobId }) => jobId));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    expect(listed).toEqual(ids);
    const failed = (await call("list_my_jobs", { status: "failed" })).jobs as Json[];
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.every(({ status }) => status === "failed")).toBe(true);
    const { cursor: eventCursor } = await call("get_job", { jobId: ids[0] });
    expect(await codeOf("list_my_jobs", { cursor: eventCursor })).toBe("BAD_CURSOR");
  });

  test("get_job_events waits, ends at once with the job, and gives canonical flat events with their cursors", async () => {
    const { jobId } = await call("start_bulk_gift_analysis", { csv: FILE, defaultBudget: 49.9 });
    const events: Json[] = [];
    let page: Json = {};
    do {
      page = await call("get_job_events", {
        jobId,
        waitSeconds: 25,
        limit: 3,
        ...(page.cursor === undefined ? {} : { after: page.cursor }),
      });
      expect(page).toEqual({
        events: expect.any(Array),
        cursor: CURSOR,
        status: expect.any(String),
        truncated: false,
        nextPollMs: expect.any(Number),
        serverTime: TIME,
        isError: false,
      });
      events.push(...(page.events as Json[]));
    } while (page.status !== "completed");
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(events.every(({ _meta }) => typeof (_meta as Json)["dev.tidings/cursor"] === "string")).toBe(true);
    const behind = performance.now();
    expect((await call("get_job_events", { jobId, after: page.cursor, waitSeconds: 25 })).events).toEqual([]);
    expect(performance.now() - behind).toBeLessThan(5_000);
    // One cursor for all paths.
    const third = ((events[2] as Json)._meta as Json)["dev.tidings/cursor"] as string;
    const { frames } = await readSse(`${server.url}/jobs/${jobId}/events?after=${third}`);
    expect(frames.map(({ data }) => JSON.parse(data).eventId)).toEqual(
      events.slice(3).map(({ eventId }) => eventId),
    );
  });

  test.each(["get_job", "get_job_events", "cancel_job", "retry_job"])(
    "%s knows one sentence for jobs that are not yours",
    async (tool) => {
      expect(await codeOf(tool, { jobId: "bulk_AAAAAAAAAAAAAAAAAAAAAA" })).toBe("JOB_NOT_FOUND");
      expect(await codeOf(tool, {})).toBe("BAD_INPUT");
    },
  );
});

describe("refresh_product_feed", () => {
  test("answers like start, tells that the feed has changed, and stands as a resource", async () => {
    const { jobId, cursor } = await call("refresh_product_feed", {});
    expect(jobId).toEqual(expect.stringMatching(/^feed_[0-9A-Za-z_-]{22,}$/));
    const types: string[] = [];
    for await (const event of follow({
      source: mcpSource(client),
      jobId: jobId as string,
      after: cursor as string,
    })) {
      types.push(event.type);
      if (event.type === "resource.updated")
        expect(event).toMatchObject({ resourceId: "resource:product-feed", changeType: "snapshot_ready" });
    }
    expect(types).toContain("resource.updated");
    expect(await readJson("resource:product-feed")).toMatchObject({
      gifts: expect.any(Number),
      version: expect.any(String),
    });
  });
});
