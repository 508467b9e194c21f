/** The analysis when something changes between its attempts. */
import { createTidings, RetryAfter, type Tidings } from "tidings";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createFeedReaders } from "../../src/feed-readers.ts";
import { BATCH, bulkGiftAnalysis } from "../../src/jobs/bulk-gift-analysis.ts";
import type { Recommendation } from "../../src/jobs/gift-result.ts";
import { RECOMMENDATIONS } from "../../src/jobs/gift-result.ts";
import { openProductFeed } from "../../src/product-feed.ts";
import { readRecommendations } from "../../src/tools/recommendations.ts";
import { openUploads } from "../../src/uploads.ts";
import type { CatalogueFolder } from "./catalogue-folder.ts";
import { copyCatalogue } from "./catalogue-folder.ts";

const OWNER = "local";
let folder: CatalogueFolder;

beforeEach(async () => {
  folder = await copyCatalogue();
});
afterEach(() => folder.remove());

/** Runs the analysis of some people to its end; `onMatch` may change the world and throw. */
async function analyse(people: number, onMatch: (record: number) => void) {
  const feed = await openProductFeed(folder.path);
  const retentionMs = 3_600_000;
  const uploads = await openUploads(undefined, () => tidings, { retentionMs });
  const bulk = bulkGiftAnalysis({
    feed,
    uploads,
    readers: createFeedReaders(() => tidings, retentionMs),
    readItems: (...request) => tidings.items(...request),
    onMatch: (_jobId, record) => onMatch(record),
  });
  const tidings: Tidings = await createTidings({ store: "memory:", jobs: [bulk] });
  const rows = Array.from({ length: people }, (_, n) => `p${n}@example.com,tea|hiking,60\n`);
  const file = await uploads.receive(OWNER, bytesOf(`email,interests,budget\n${rows.join("")}`));
  const input = { file, currency: "USD", giftsPerEmployee: 2, locale: "en" } as const;
  const { jobId } = await tidings.start(bulk, input);
  const ended = new AbortController();
  for await (const item of tidings.tail({ owner: OWNER, signal: ended.signal })) {
    if (item.kind === "event" && /^job\.(completed|failed)$/.test(item.event.type)) break;
  }
  const { status } = await tidings.get(OWNER, jobId);
  const { items } = await tidings.items(OWNER, jobId, RECOMMENDATIONS, { offset: 0, limit: people + 1 });
  const page = await readRecommendations(tidings, OWNER, { jobId });
  await tidings.close({ graceMs: 0 });
  await uploads.close();
  const skus = (items as readonly Recommendation[]).flatMap(({ gifts }) => gifts.map(({ sku }) => sku));
  return { status, people: items.length, skus, page };
}

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

test.each([
  ["in the middle of matching", BATCH + 10, false],
  ["before the first batch is stored", 10, true],
])("a catalogue that changes %s never mixes with the old one in one list", async (_when, record, isNew) => {
  const people = BATCH + 50;
  let attempt = 1;
  const { status, skus, ...list } = await analyse(people, (at) => {
    if (attempt > 1 || at !== record) return;
    attempt = 2;
    folder.rename("NEW-");
    throw new RetryAfter(0, "The attempt stops here.");
  });
  expect(status).toBe("completed");
  expect(list.people).toBe(people);
  expect(new Set(skus.map((sku) => sku.startsWith("NEW-")))).toEqual(new Set([isNew]));
});

test("recommendations of a failed job are complete: an agent does not ask for more for ever", async () => {
  const { status, people, page } = await analyse(BATCH + 50, (record) => {
    if (record > BATCH) throw new RetryAfter(0, "It never works.");
  });
  expect(status).toBe("failed");
  expect(people).toBe(BATCH);
  expect(page).toMatchObject({ total: BATCH, complete: true });
});
