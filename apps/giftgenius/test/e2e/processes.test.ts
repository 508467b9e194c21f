/** Several processes on one store: what one says, the other does. */
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { follow } from "tidings/client";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ServerProcess } from "../../src/demo/server-process.ts";
import { startServer } from "../../src/demo/server-process.ts";
import { writeEmployees } from "./employees.ts";
import { connectModern, openStdio, readSse } from "./paths.ts";

describe("two processes on one SQLite file", () => {
  let folder: string;
  let env: Record<string, string>;
  let server: ServerProcess;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
    env = {
      TIDINGS_STORE: `sqlite:${join(folder, "giftgenius.db")}`,
      GIFTGENIUS_MATCH_LOG: join(folder, "matches.log"),
      PORT: "0",
    };
    server = await startServer(env);
  });
  afterEach(async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  async function upload(rows: number): Promise<string> {
    const file = join(folder, "employees.csv");
    await writeEmployees(file, rows);
    const response = await fetch(`${server.url}/uploads`, { method: "POST", body: await readFile(file) });
    return ((await response.json()) as { uploadId: string }).uploadId;
  }

  test("a cancel in one stops the handler in the other; nothing follows the ending (FC-42)", async () => {
    const uploadId = await upload(60_000);
    const client = await connectModern(server.url);
    const started = await client.callTool({
      name: "start_bulk_gift_analysis",
      arguments: { uploadId, defaultBudget: 30 },
    });
    const { jobId } = started.structuredContent as { jobId: string };
    for await (const event of follow({ url: server.url, jobId })) {
      if (event.type === "job.progress" && event.stageKey === "match") break;
    }

    const other = openStdio(env);
    await other.request("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "other", version: "1.0.0" },
    });
    other.notify("notifications/initialized");
    const answer = await other.request("tools/call", {
      name: "cancel_job",
      arguments: { jobId, reason: "enough" },
    });
    const canceled = (answer.result as { structuredContent: Record<string, unknown> }).structuredContent;
    expect(canceled).toMatchObject({ status: "canceled", canceledBy: "user", reason: "enough" });

    // The handler is told within a second: then no more matches are made.
    const size = async (): Promise<number> => (await stat(join(folder, "matches.log"))).size;
    let before = -1;
    await expect
      .poll(
        async () => {
          const now = await size();
          const still = now === before;
          before = now;
          return still;
        },
        { interval: 500, timeout: 10_000 },
      )
      .toBe(true);
    const matched = (await readFile(join(folder, "matches.log"), "utf8")).trim().split("\n").length;
    expect(matched).toBeLessThan(60_000);

    const { frames } = await readSse(`${server.url}/jobs/${jobId}/events`);
    const types = frames.map(({ event }) => event);
    expect(types.filter((type) => /completed|failed|canceled|retrying/.test(type))).toEqual(["job.canceled"]);
    expect(types.at(-1)).toBe("job.canceled");
    const again = await client.callTool({ name: "cancel_job", arguments: { jobId } });
    expect(again.structuredContent).toEqual(canceled);
    await client.close();
    expect(await other.close()).toBe(0);
  });

  test("a server that is stopped in the middle of an upload leaves no piece of it behind", async () => {
    const pieces = async () =>
      (await readdir(join(folder, "uploads"))).filter((name) => name.endsWith(".part"));
    const upload = request(`${server.url}/uploads`, {
      method: "POST",
      headers: { "content-length": 5_000_000 },
    });
    upload.on("error", () => undefined);
    upload.write("x".repeat(100_000));
    await expect.poll(pieces, { timeout: 10_000 }).toHaveLength(1);
    expect(await server.stop()).toBe(0);
    expect(await pieces()).toEqual([]);
  });

  test("a start that is repeated after the server was killed finds the job of the first call (FC-41)", async () => {
    const uploadId = await upload(200);
    const call = {
      name: "start_bulk_gift_analysis",
      arguments: { uploadId, defaultBudget: 30, idempotencyKey: "after-a-crash" },
    };
    const first = await connectModern(server.url);
    const { jobId } = (await first.callTool(call)).structuredContent as { jobId: string };
    await server.kill();
    server = await startServer({ ...env, PORT: new URL(server.url).port });
    expect((await first.callTool(call)).structuredContent).toMatchObject({ jobId });
    const jobs = await first.callTool({ name: "list_my_jobs", arguments: {} });
    expect((jobs.structuredContent as { jobs: unknown[] }).jobs.length).toBe(1);
    await first.close();
  });
});
