/** A changed product feed: everybody whose list came from the one before hears of it, and nothing else. */
import { createTidings, type Tidings, type TidingsEvent } from "tidings";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { createFeedReaders } from "../../src/feed-readers.ts";
import { bulkGiftAnalysis } from "../../src/jobs/bulk-gift-analysis.ts";
import { refreshProductFeed } from "../../src/jobs/refresh-product-feed.ts";
import { openProductFeed, PRODUCT_FEED_URI } from "../../src/product-feed.ts";
import { openUploads } from "../../src/uploads.ts";
import type { CatalogueFolder } from "./catalogue-folder.ts";
import { copyCatalogue } from "./catalogue-folder.ts";

const RETENTION_MS = 3_600_000;
let folder: CatalogueFolder;

beforeEach(async () => {
  folder = await copyCatalogue();
});
afterEach(() => folder.remove());

async function openWorld(onMatch: () => void = () => undefined) {
  const feed = await openProductFeed(folder.path);
  const uploads = await openUploads(undefined, () => tidings, { retentionMs: RETENTION_MS });
  const readers = createFeedReaders(() => tidings, RETENTION_MS);
  const readItems: Tidings["items"] = (...request) => tidings.items(...request);
  const bulk = bulkGiftAnalysis({ feed, uploads, readers, readItems, onMatch });
  const refresh = refreshProductFeed({ feed, readers });
  const tidings: Tidings = await createTidings({ store: "memory:", jobs: [bulk, refresh] });
  onTestFinished(async () => {
    await tidings.close({ graceMs: 0 });
    await uploads.close();
  });

  async function ended(owner: string, jobId: string): Promise<void> {
    for await (const item of tidings.tail({ owner, jobIds: [jobId], signal: new AbortController().signal })) {
      if (item.kind !== "event" || !/^job\.(completed|failed)$/.test(item.event.type)) continue;
      expect(item.event.type).toBe("job.completed");
      return;
    }
  }

  return {
    async makeList(owner: string): Promise<void> {
      const file = await uploads.receive(
        owner,
        bytesOf(`email,interests,budget\n${owner}@example.com,tea,20\n`),
      );
      const input = { file, currency: "USD", giftsPerEmployee: 1, locale: "en" } as const;
      await ended(owner, (await tidings.start(bulk, input, { owner })).jobId);
    },
    async refresh(owner: string): Promise<string> {
      const { jobId } = await tidings.start(refresh, {}, { owner });
      await ended(owner, jobId);
      return jobId;
    },
    /** What an owner was told of the feed. */
    async heard(owner: string): Promise<readonly TidingsEvent[]> {
      const { events } = await tidings.read({ owner, resourceIds: [PRODUCT_FEED_URI], limit: 100 });
      return events.map(({ event }) => event).filter(({ type }) => type === "resource.updated");
    },
  };
}

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

test("is told to the owner of each finished list of another version, once, and says nothing about anybody", async () => {
  const { makeList, refresh, heard } = await openWorld();
  for (const owner of ["ann", "bob", "bob"]) await makeList(owner);
  folder.rename("NEW-");
  const jobId = await refresh("carol");
  const [ann, bob] = [await heard("ann"), await heard("bob")];
  for (const events of [ann, bob]) {
    expect(events).toEqual([
      {
        eventId: expect.stringMatching(/^evt_[\w-]{22}$/),
        type: "resource.updated",
        timestamp: expect.any(String),
        resourceId: PRODUCT_FEED_URI,
        changeType: "snapshot_ready",
      },
    ]);
    expect(JSON.stringify(events)).not.toContain(jobId);
  }
  expect(ann[0]?.eventId).not.toBe(bob[0]?.eventId);
  // Who asked hears it in the job's own story, who has no list not at all.
  expect(await heard("carol")).toMatchObject([{ jobId }]);
  expect(await heard("dave")).toEqual([]);
});

test("is not told again when somebody reads the same feed again and again; the next change is", async () => {
  const { makeList, refresh, heard } = await openWorld();
  await makeList("ann");
  await refresh("carol");
  expect(await heard("ann")).toHaveLength(0);
  for (const [prefix, times] of [
    ["B-", 1],
    ["C-", 2],
  ] as const) {
    folder.rename(prefix);
    for (let count = 0; count < 3; count += 1) await refresh("carol");
    expect(await heard("ann")).toHaveLength(times);
  }
});

test("that changed while a list was made is told in the list's own story", async () => {
  let changed = false;
  const { makeList, heard } = await openWorld(() => {
    if (!changed) folder.rename("NEW-");
    changed = true;
  });
  await makeList("ann");
  expect(await heard("ann")).toMatchObject([{ jobId: expect.any(String), changeType: "snapshot_ready" }]);
});
