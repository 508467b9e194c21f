/** How much room uploaded files take: each owner's share, everybody's together, and what a refusal leaves behind. */
import { mkdtemp, readdir, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTidings, defineJob, type Tidings } from "tidings";
import { createManualClock, type ManualClock } from "tidings/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { openGiftGenius } from "../../src/app.ts";
import { readConfig } from "../../src/config.ts";
import { serveHttp } from "../../src/http.ts";
import { toBulkInput } from "../../src/tools/start-arguments.ts";
import type { Uploads } from "../../src/uploads.ts";
import { openUploads } from "../../src/uploads.ts";

const KB = 1024;
const MB = KB * KB;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const waiting = defineJob("waiting", { input: z.object({}), run: () => undefined });

let folder: string;
let clock: ManualClock;
let tidings: Tidings;
let opened: Uploads[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
  clock = createManualClock({ now: Date.now() });
  // Nobody works here: jobs wait.
  tidings = await createTidings({ store: "memory:", jobs: [waiting], concurrency: 0, clock });
  opened = [];
});
afterEach(async () => {
  for (const uploads of opened) await uploads.close();
  await tidings.close();
  await rm(folder, { recursive: true, force: true });
});

async function openHere(limits: { bytes?: number; bytesPerOwner?: number } = {}): Promise<Uploads> {
  const { bytes = 100 * MB, bytesPerOwner = 10 * KB } = limits;
  const uploads = await openUploads(folder, () => tidings, {
    retentionMs: 7 * 24 * HOUR_MS,
    limits: { bytes, bytesPerOwner },
    clock,
  });
  opened.push(uploads);
  return uploads;
}

async function* file(bytes: number, content = "x"): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes; at += KB) yield Buffer.alloc(Math.min(KB, bytes - at), content);
}

const names = (): Promise<string[]> => readdir(folder);
const full = (limit: number) => ({ code: "OWNER_FULL", retryable: true, data: { limit } });

describe("security 21: an owner's files", () => {
  test("take no more than the owner's share, and nobody else notices", async () => {
    const uploads = await openHere();
    await uploads.receive("mallory", file(6 * KB, "a"));
    await expect(uploads.receive("mallory", file(6 * KB, "b"))).rejects.toMatchObject(full(10 * KB));
    expect(await names()).toHaveLength(1);
    await uploads.receive("ann", file(6 * KB, "b"));
    await uploads.receive("mallory", file(4 * KB, "c"));
  });

  test("are refused before a byte is read when their size is told, and while they come when it is not", async () => {
    const uploads = await openHere();
    let read = 0;
    async function* watched(): AsyncGenerator<Uint8Array> {
      for await (const chunk of file(20 * KB)) {
        read += chunk.length;
        yield chunk;
      }
    }
    await uploads.receive("mallory", file(5 * KB));
    await expect(uploads.receive("mallory", watched(), 6 * KB)).rejects.toMatchObject(full(10 * KB));
    expect(read).toBe(0);
    await expect(uploads.receive("mallory", watched())).rejects.toMatchObject(full(10 * KB));
    expect(read).toBeGreaterThan(0);
    expect(await names()).toHaveLength(1);
  });

  test("count while they are on their way, so that many at once are not more than one after another", async () => {
    const uploads = await openHere();
    const answers = await Promise.allSettled(
      ["a", "b", "c", "d"].map((content) => uploads.receive("mallory", file(6 * KB, content), 6 * KB)),
    );
    expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    await expect(uploads.receive("mallory", file(4 * KB, "e"))).resolves.toMatchObject({ bytes: 4 * KB });
  });

  test("that break off or come twice take no room", async () => {
    const uploads = await openHere({ bytesPerOwner: 16 * KB });
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield* file(5 * KB);
      throw new Error("The connection broke.");
    }
    for (let at = 0; at < 5; at += 1) {
      await expect(uploads.receive("ann", broken(), 8 * KB)).rejects.toThrow("broke");
      await uploads.receive("ann", file(8 * KB));
    }
    expect(await names()).toHaveLength(1);
  });

  test("take a block of the disk each, however small they are", async () => {
    const uploads = await openHere({ bytesPerOwner: 8 * KB });
    await uploads.receive("mallory", file(1, "a"));
    await uploads.receive("mallory", file(1, "b"));
    await expect(uploads.receive("mallory", file(1, "c"))).rejects.toMatchObject(full(8 * KB));
  });

  test("are still counted after a restart, and not any more once they were removed", async () => {
    await (await openHere()).receive("mallory", file(8 * KB));
    const uploads = await openHere();
    await expect(uploads.receive("mallory", file(8 * KB, "b"))).rejects.toMatchObject(full(10 * KB));
    for (const name of await names()) await utimes(join(folder, name), new Date(0), new Date(0));
    uploads.beginSweeping();
    await expect.poll(names).toEqual([]);
    await uploads.receive("mallory", file(8 * KB, "b"));
  });

  test("are counted whichever process took them, a minute later at the latest", async () => {
    const [one, other] = [await openHere(), await openHere()];
    await one.receive("mallory", file(8 * KB));
    clock.advance(MINUTE_MS);
    await expect(other.receive("mallory", file(8 * KB, "b"))).rejects.toMatchObject(full(10 * KB));
  });

  test.each(["../../etc/passwd", "a/b", "__proto__", "\0", "", "x".repeat(10_000)])(
    "lie in the folder, whatever the owner's name is: %j",
    async (owner) => {
      const uploads = await openHere();
      const upload = await uploads.receive(owner, file(10));
      expect(await names()).toEqual([expect.stringMatching(/^[0-9a-f]{32}-[0-9a-f]{64}\.csv$/)]);
      await uploads.verify(owner, upload, new AbortController().signal);
      await expect(uploads.open("another", upload)).rejects.toMatchObject({ code: "UPLOAD_NOT_FOUND" });
    },
  );
});

test("the files of everybody together take no more than the folder may; what lies there else counts", async () => {
  await writeFile(join(folder, "notes.txt"), "n".repeat(10 * KB));
  const uploads = await openHere({ bytes: 30 * KB });
  await uploads.receive("ann", file(8 * KB));
  await uploads.receive("bob", file(8 * KB));
  await expect(uploads.receive("eve", file(8 * KB))).rejects.toMatchObject({
    code: "SERVER_FULL",
    data: { limit: 30 * KB, retryAfterMs: HOUR_MS },
  });
  await uploads.receive("eve", file(4 * KB));
});

test("a file that would not fit into an empty share is too large, and waiting would not help", async () => {
  const uploads = await openHere();
  const error = { code: "PAYLOAD_TOO_LARGE", retryable: false, data: { limit: 10 * KB } };
  await expect(uploads.receive("ann", file(1), 11 * KB)).rejects.toMatchObject(error);
  await expect(uploads.receive("ann", file(11 * KB))).rejects.toMatchObject(error);
  expect(await names()).toEqual([]);
});

test("over HTTP the refusal comes while the client still waits to send, with its limit and when to try again", async () => {
  const limit = MB;
  const config = readConfig({
    TIDINGS_STORE: "memory:",
    PORT: "0",
    GIFTGENIUS_UPLOAD_BYTES_PER_OWNER: String(limit),
  });
  const app = await openGiftGenius(config);
  const server = await serveHttp(app, config);
  expect((await fetch(`${server.url}/uploads`, { method: "POST", body: "x".repeat(limit / 2) })).status).toBe(
    201,
  );
  const answer = await new Promise<{ status?: number; retryAfter?: string; text: string }>(
    (resolve, reject) => {
      const call = request(`${server.url}/uploads`, {
        method: "POST",
        headers: { "content-length": limit - 1_000 },
      });
      call.once("error", reject);
      call.once("response", (response) => {
        let text = "";
        response.on("data", (chunk: Buffer) => {
          text += chunk.toString();
        });
        response.once("end", () => {
          const { statusCode, headers } = response;
          resolve({
            text,
            ...(statusCode === undefined ? {} : { status: statusCode }),
            ...(headers["retry-after"] === undefined ? {} : { retryAfter: headers["retry-after"] }),
          });
          call.destroy();
        });
      });
      // The head alone.
      call.flushHeaders();
    },
  );
  expect(answer).toMatchObject({ status: 429, retryAfter: "3600" });
  expect(JSON.parse(answer.text)).toMatchObject({ error: { code: "OWNER_FULL", data: { limit } } });
  await server.close();
  await app.close();
});

describe("the file of a start that is refused", () => {
  const someBulk = { currency: "USD", giftsPerEmployee: 1, locale: "en" } as const;

  test("goes a minute later, unless an id or another job keeps it", async () => {
    const uploads = await openHere({ bytesPerOwner: MB });
    const [plain, granted, kept, used] = await Promise.all(
      ["a", "b", "c", "d"].map((content) => uploads.receive("ann", file(10, content))),
    );
    if (!plain || !granted || !kept || !used) throw new Error("Four files came.");
    await uploads.grant("ann", granted);
    const { jobId } = await tidings.start(waiting, {}, { owner: "ann" });
    await uploads.keepFor("ann", jobId, kept);
    for (const upload of [plain, granted, kept, used]) uploads.abandon("ann", upload);
    clock.advance(MINUTE_MS / 2);
    // Another start has begun with it.
    await uploads.open("ann", used);
    expect(await names()).toHaveLength(4);
    clock.advance(MINUTE_MS / 2 + 1_000);
    await expect.poll(names).toHaveLength(3);
    await expect(uploads.open("ann", plain)).rejects.toMatchObject({ code: "UPLOAD_NOT_FOUND" });
    for (const upload of [granted, kept, used]) await uploads.open("ann", upload);
  });

  test("regression: inline tables of starts that were refused lay about for a day", async () => {
    const config = readConfig({ TIDINGS_STORE: `sqlite:${join(folder, "g.db")}`, PORT: "0" });
    const app = await openGiftGenius(config, { uploadsClock: clock });
    const server = await serveHttp(app, config);
    const client = new Client(
      { name: "intake", version: "1.0.0" },
      { versionNegotiation: { mode: { pin: "2026-07-28" } } },
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)));
    const start = (csv: string) =>
      client.callTool({ name: "start_bulk_gift_analysis", arguments: { csv, idempotencyKey: "one" } });
    const home = join(folder, "uploads");
    await start("email,budget\nada@example.com,20\n");
    const refused = await start("email,budget\nada@example.com,30\n");
    expect(refused.structuredContent).toMatchObject({ error: { code: "IDEMPOTENCY_CONFLICT" } });
    expect(await readdir(home)).toHaveLength(2);
    clock.advance(MINUTE_MS + 1_000);
    await expect.poll(() => readdir(home)).toHaveLength(1);
    // The one that is left is the job's: the same start finds it.
    expect((await start("email,budget\nada@example.com,20\n")).isError).toBeFalsy();
    await client.close();
    await server.close();
    await app.close();
  });

  test("counts as the owner's too when it came inline", async () => {
    const uploads = await openHere();
    const feed = { latest: async () => ({ rates: { rates: new Map([["USD", 1]]) } }) };
    const parts = { uploads, owner: "mallory", feed: feed as never };
    const table = (content: string) => ({ ...someBulk, csv: content.repeat(6 * KB) });
    await toBulkInput(table("a"), parts);
    await expect(toBulkInput(table("b"), parts)).rejects.toMatchObject(full(10 * KB));
  });
});

describe("regression: a file that was damaged on the disk", () => {
  const damage = [
    ["is empty", (path: string) => truncate(path, 0), /it has 0 bytes instead of \d+/],
    ["has other content", (path: string) => writeFile(path, "\0".repeat(51)), /its content is another one/],
  ] as const;
  test.each(damage)(
    "and %s ends its job in a sentence, at the first attempt",
    async (_how, harm, sentence) => {
      const app = await openGiftGenius(readConfig({ TIDINGS_STORE: `sqlite:${join(folder, "g.db")}` }));
      const { tidings } = app;
      const bulk = tidings.jobs.get("bulk_gift_analysis");
      if (bulk === undefined) throw new Error("The application has no analysis.");
      const source = (async function* () {
        yield Buffer.from("email,interests,budget\nada@example.com,tea and c,20\n".slice(0, 51));
      })();
      const upload = await app.uploads.receive("ann", source);
      const home = join(folder, "uploads");
      for (const name of await readdir(home)) await harm(join(home, name));
      const input = { file: upload, currency: "USD", giftsPerEmployee: 1, locale: "en" };
      const { jobId } = await tidings.start(bulk, input, { owner: "ann" });
      const stop = new AbortController();
      for await (const item of tidings.tail({ owner: "ann", jobIds: [jobId], signal: stop.signal }))
        if (item.kind === "event" && /^job\.(completed|failed)$/.test(item.event.type)) break;
      const { status, error, attempt } = await tidings.get("ann", jobId);
      expect({ status, attempt, error }).toMatchObject({
        status: "failed",
        attempt: 1,
        error: { code: "UPLOAD_DAMAGED", message: expect.stringMatching(sentence) },
      });
      await app.close();
    },
  );

  test("is whole again once it is sent again", async () => {
    const uploads = await openHere();
    const upload = await uploads.receive("ann", file(10));
    for (const name of await names()) await truncate(join(folder, name), 0);
    await expect(uploads.open("ann", upload)).rejects.toMatchObject({ code: "UPLOAD_DAMAGED" });
    await uploads.receive("ann", file(10));
    await uploads.verify("ann", upload, new AbortController().signal);
  });
});
