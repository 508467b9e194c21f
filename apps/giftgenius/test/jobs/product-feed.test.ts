/** The product feed, as several processes on one catalogue see it. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { openProductFeed } from "../../src/product-feed.ts";
import type { CatalogueFolder } from "./catalogue-folder.ts";
import { copyCatalogue } from "./catalogue-folder.ts";

let folder: CatalogueFolder;

beforeEach(async () => {
  folder = await copyCatalogue();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await folder.remove();
});

test("a catalogue that one process refreshed is what the others use next", async () => {
  const [one, other] = await Promise.all([openProductFeed(folder.path), openProductFeed(folder.path)]);
  const before = await other.latest();
  folder.rename("NEW-");
  const refreshed = await one.refresh();
  const after = await other.latest();
  expect(after.version).toBe(refreshed.version);
  expect(after.version).not.toBe(before.version);
  expect(after.gifts[0]?.sku).toMatch(/^NEW-/);
});

test("an unchanged catalogue is not read again", async () => {
  const feed = await openProductFeed(folder.path);
  const before = await feed.latest();
  expect(await feed.latest()).toBe(before);
});

test("a catalogue damaged on disk is told of once, and the one from before stays until it is mended", async () => {
  const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const feed = await openProductFeed(folder.path);
  const before = await feed.latest();
  folder.damage();
  expect(await feed.latest()).toBe(before);
  expect(await feed.latest()).toBe(before);
  expect(stderr.mock.calls.map(([line]) => JSON.parse(String(line)))).toEqual([
    expect.objectContaining({ level: "warn", message: "The catalogue's gifts.json is not JSON." }),
  ]);
  await expect(feed.refresh()).rejects.toMatchObject({ code: "BAD_CATALOGUE" });
});
