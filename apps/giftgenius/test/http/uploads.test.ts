/** Files that people hand over: how long they are kept, and what is said when they are not. */
import { mkdtemp, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTidings, defineJob, type Tidings } from "tidings";
import { createManualClock, type ManualClock } from "tidings/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { openGiftGenius } from "../../src/app.ts";
import { readConfig } from "../../src/config.ts";
import type { Uploads } from "../../src/uploads.ts";
import { openUploads } from "../../src/uploads.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const WEEK_MS = 7 * DAY_MS;
const waiting = defineJob("waiting", { input: z.object({}), run: () => undefined });

let folder: string;
let clock: ManualClock;
let tidings: Tidings;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
  clock = createManualClock({ now: Date.now() });
  // Nobody works here: jobs wait.
  tidings = await createTidings({ store: "memory:", jobs: [waiting], concurrency: 0, clock });
});
afterEach(async () => {
  await tidings.close();
  await rm(folder, { recursive: true, force: true });
});

const openHere = (retentionMs = WEEK_MS): Promise<Uploads> =>
  openUploads(folder, () => tidings, { retentionMs, clock });

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

const files = async (): Promise<number> => (await readdir(folder)).length;

test("a file that nobody used for a day is removed while the server runs, and its id is not found", async () => {
  const uploads = await openHere();
  uploads.beginSweeping();
  const old = await uploads.grant("local", await uploads.receive("local", bytesOf("old")));
  const used = await uploads.receive("local", bytesOf("used"));
  clock.advance(DAY_MS - HOUR_MS);
  await uploads.open("local", used);
  clock.advance(2 * HOUR_MS);
  await expect
    .poll(async () => {
      clock.advance(HOUR_MS / 6);
      return files();
    })
    .toBe(1);
  await expect(uploads.find("local", old)).rejects.toMatchObject({ code: "UPLOAD_NOT_FOUND" });
  await uploads.open("local", used);
  await uploads.close();
});

test.each([
  ["a day", WEEK_MS, DAY_MS],
  ["as long as ended jobs are kept, when that is shorter", 2 * HOUR_MS, 2 * HOUR_MS],
])(
  "an upload's id is good for %s, however often the file itself is used",
  async (_for, retentionMs, goodMs) => {
    const uploads = await openHere(retentionMs);
    const uploadId = await uploads.grant("local", await uploads.receive("local", bytesOf("old")));
    clock.advance(goodMs - 1_000);
    await uploads.find("local", uploadId);
    clock.advance(2_000);
    await expect(uploads.find("local", uploadId)).rejects.toMatchObject({ code: "UPLOAD_NOT_FOUND" });
    await uploads.close();
  },
);

test("a job that waits for a worker keeps its file, however long; the file goes with the last job", async () => {
  const uploads = await openHere();
  const file = await uploads.receive("local", bytesOf("mine"));
  const jobs = [await tidings.start(waiting, {}), await tidings.start(waiting, {})];
  for (const { jobId } of jobs) await uploads.keepFor("local", jobId, file);
  clock.advance(30 * DAY_MS);
  const sweep = async () => {
    uploads.beginSweeping();
    // Waits for the sweep that is under way.
    await uploads.close();
    return files();
  };
  expect(await sweep()).toBe(1);
  for (const { jobId } of jobs) {
    await tidings.cancel("local", jobId, { canceledBy: "user" });
    expect(await sweep()).toBe(1);
    clock.advance(HOUR_MS);
    await tidings.prune({ olderThanMs: HOUR_MS });
  }
  expect(await sweep()).toBe(0);
});

test("regression: a job's retry finds its file for as long as the job is kept, across restarts; then the file goes", async () => {
  const config = readConfig({
    TIDINGS_STORE: `sqlite:${join(folder, "g.db")}`,
    TIDINGS_RETENTION_HOURS: "8000",
  });
  const home = join(folder, "uploads");
  const names = async () => (await readdir(home)).filter((name) => name.endsWith(".csv"));
  /** As if nobody had used it for a long time. */
  const age = async () => {
    for (const name of await names()) await utimes(join(home, name), new Date(0), new Date(0));
  };
  const endOf = async ({ tidings }: { tidings: Tidings }, jobId: string) => {
    const stop = new AbortController();
    for await (const item of tidings.tail({ owner: "ann", jobIds: [jobId], signal: stop.signal }))
      if (item.kind === "event" && /^job\.(completed|failed)$/.test(item.event.type)) return item.event.type;
    return undefined;
  };

  let app = await openGiftGenius(config);
  const bulk = app.tidings.jobs.get("bulk_gift_analysis");
  if (bulk === undefined) throw new Error("The application has no analysis.");
  const file = await app.uploads.receive("ann", bytesOf("email,interests,budget\nada@example.com,tea,20\n"));
  const input = { file, currency: "USD", giftsPerEmployee: 1, locale: "en" };
  const first = await app.tidings.start(bulk, input, { owner: "ann" });
  expect(await endOf(app, first.jobId)).toBe("job.completed");
  await app.close();

  await age();
  app = await openGiftGenius(config);
  // Waits for the sweep of the start.
  await app.uploads.close();
  expect(await names()).toHaveLength(1);
  await app.close();

  app = await openGiftGenius(config);
  const second = await app.tidings.retry("ann", first.jobId);
  expect(await endOf(app, second.jobId)).toBe("job.completed");
  await app.tidings.prune({ olderThanMs: 0 });
  await app.close();

  await age();
  app = await openGiftGenius(config);
  await app.uploads.close();
  expect(await names()).toEqual([]);
  await app.close();
});

test("a file that another process removes meanwhile does not disturb the sweep", async () => {
  const old = join(folder, `${"a".repeat(64)}.csv`);
  await writeFile(old, "");
  await utimes(old, new Date(0), new Date(0));
  // Listed, but not there any more when it is looked at.
  await symlink(join(folder, "gone"), join(folder, `${"b".repeat(64)}.csv`));
  const uploads = await openHere();
  uploads.beginSweeping();
  await uploads.close();
  expect(await readdir(folder)).toEqual([`${"b".repeat(64)}.csv`]);
});
