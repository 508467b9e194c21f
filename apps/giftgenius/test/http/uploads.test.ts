/** Files that people hand over: how long they are kept, and what is said when they are not. */
import { mkdtemp, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTidings, type Tidings } from "tidings";
import { createManualClock } from "tidings/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openUploads } from "../../src/uploads.ts";

const DAY_MS = 24 * 3_600_000;
let folder: string;
let tidings: Tidings;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
  tidings = await createTidings({ store: "memory:", jobs: [] });
});
afterEach(async () => {
  await tidings.close();
  await rm(folder, { recursive: true, force: true });
});

/** A clock that stands until the test moves it. */
function stoppedClock() {
  let calls: { readonly at: number; readonly call: () => void }[] = [];
  let time = Date.now();
  return {
    now: () => time,
    after(ms: number, call: () => void) {
      const entry = { at: time + ms, call };
      calls.push(entry);
      return () => {
        calls = calls.filter((each) => each !== entry);
      };
    },
    get waiting() {
      return calls.length;
    },
    move(ms: number) {
      time += ms;
      const due = calls.filter(({ at }) => at <= time);
      calls = calls.filter((each) => !due.includes(each));
      for (const { call } of due) call();
    },
  };
}

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

test("a file that nobody asked for in eight days is removed while the server runs, and its id is not found", async () => {
  const clock = stoppedClock();
  const uploads = await openUploads(folder, clock);
  const old = await uploads.grant(tidings, "local", await uploads.receive(bytesOf("old")));
  const used = await uploads.grant(tidings, "local", await uploads.receive(bytesOf("used")));
  clock.move(7 * DAY_MS);
  await expect.poll(() => clock.waiting).toBe(1);
  await uploads.find(tidings, "local", used);
  clock.move(2 * DAY_MS);
  await expect.poll(async () => (await readdir(folder)).length).toBe(1);
  await expect(uploads.find(tidings, "local", old)).rejects.toMatchObject({ code: "UPLOAD_NOT_FOUND" });
  await uploads.find(tidings, "local", used);
  await uploads.close();
});

test("an upload's id is good for eight days, however often the file itself is used", async () => {
  const clock = createManualClock({ now: Date.now() });
  const kept = await createTidings({ store: "memory:", jobs: [], clock });
  const uploads = await openUploads(folder, clock);
  const uploadId = await uploads.grant(kept, "local", await uploads.receive(bytesOf("old")));
  clock.advance(8 * DAY_MS - 1_000);
  await uploads.find(kept, "local", uploadId);
  clock.advance(2_000);
  await expect(uploads.find(kept, "local", uploadId)).rejects.toMatchObject({ code: "UPLOAD_NOT_FOUND" });
  await uploads.close();
  await kept.close();
});

test("nothing is removed any more after the end", async () => {
  const clock = stoppedClock();
  const uploads = await openUploads(folder, clock);
  await uploads.close();
  expect(clock.waiting).toBe(0);
});

test("a file that another process removes meanwhile does not stop the start", async () => {
  const old = join(folder, `${"a".repeat(64)}.csv`);
  await writeFile(old, "");
  await utimes(old, new Date(0), new Date(0));
  // Listed, but not there any more when it is looked at.
  await symlink(join(folder, "gone"), join(folder, `${"b".repeat(64)}.csv`));
  const uploads = await openUploads(folder, stoppedClock());
  expect(await readdir(folder)).toEqual([`${"b".repeat(64)}.csv`]);
  await uploads.close();
});
