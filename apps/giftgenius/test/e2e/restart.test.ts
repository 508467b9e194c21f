/** The server is killed in the middle of its work and started again: nobody loses anything. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { follow } from "tidings/client";
import { mcpSource } from "tidings/mcp/client";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { recommendationsOf } from "../../src/demo/recommendation-pages.ts";
import type { ServerProcess } from "../../src/demo/server-process.ts";
import { startServer } from "../../src/demo/server-process.ts";
import { writeEmployees } from "./employees.ts";
import { connectModern, readSse } from "./paths.ts";

const ROWS = 12_000;

describe("kill -9 in the middle of matching", () => {
  let folder: string;
  let env: Record<string, string>;
  let server: ServerProcess;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
    env = {
      TIDINGS_STORE: `sqlite:${join(folder, "giftgenius.db")}`,
      GIFTGENIUS_MATCH_LOG: join(folder, "matches.log"),
      // Long enough that waiting for it would fail the test: a restarted only process takes its own jobs back at once.
      TIDINGS_LEASE_MS: "3600000",
      PORT: "0",
    };
    server = await startServer(env);
  });
  afterEach(async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test("every path resumes, the story is whole, each person is in the result once", async () => {
    const { url } = server;
    const file = join(folder, "employees.csv");
    await writeEmployees(file, ROWS);
    const uploaded = await fetch(`${url}/uploads`, { method: "POST", body: await readFile(file) });
    const { uploadId } = (await uploaded.json()) as { uploadId: string };
    const client = await connectModern(url);
    const started = await client.callTool({
      name: "start_bulk_gift_analysis",
      arguments: { uploadId, defaultBudget: 30 },
    });
    const { jobId } = started.structuredContent as { jobId: string };

    let restarted: Promise<void> | undefined;
    const restart = async (): Promise<void> => {
      await server.kill();
      server = await startServer({ ...env, PORT: new URL(url).port });
    };
    const byMcp = idsOf(follow({ source: mcpSource(client), jobId }));
    const bySse: string[] = [];
    for await (const event of follow({ url, jobId })) {
      bySse.push(event.eventId);
      if (
        restarted === undefined &&
        event.type === "job.progress" &&
        event.stageKey === "match" &&
        event.percentage < 70
      ) {
        restarted = restart();
      }
    }
    await restarted;
    expect(restarted).toBeDefined();

    const { frames } = await readSse(`${server.url}/jobs/${jobId}/events`);
    const log = frames.map(
      ({ data }) =>
        JSON.parse(data) as { eventId: string; seq: number; type: string; error?: { code: string } },
    );
    expect(bySse).toEqual(log.map(({ eventId }) => eventId));
    expect(await byMcp).toEqual(bySse);
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
    expect(log.filter(({ type }) => type === "job.retrying").map(({ error }) => error?.code)).toEqual([
      "WORKER_LOST",
    ]);
    expect(log.at(-1)?.type).toBe("job.completed");

    const emails: string[] = [];
    for await (const { email } of recommendationsOf(client, jobId)) emails.push(email);
    expect(emails.length).toBe(ROWS);
    expect(new Set(emails).size).toBe(ROWS);

    const matches = (await readFile(join(folder, "matches.log"), "utf8")).trim().split("\n");
    expect(new Set(matches).size).toBe(ROWS);
    expect(matches.length - ROWS).toBeLessThanOrEqual(200);
    await client.close();
  });
});

async function idsOf(story: AsyncIterable<{ readonly eventId: string }>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { eventId } of story) ids.push(eventId);
  return ids;
}
