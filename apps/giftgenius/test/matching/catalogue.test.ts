import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadCatalogue } from "../../src/matching/catalogue.ts";

const SHIPPED = fileURLToPath(new URL("../../catalogue", import.meta.url));

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "catalogue-"));
  await cp(SHIPPED, folder, { recursive: true });
});
afterEach(() => rm(folder, { recursive: true }));

// biome-ignore lint/suspicious/noExplicitAny: the tests damage files on purpose
type Json = any;

async function damage(name: string, change: (json: Json) => void): Promise<void> {
  const path = join(folder, name);
  const json = JSON.parse(await readFile(path, "utf8"));
  change(json);
  await writeFile(path, JSON.stringify(json));
}

describe("the catalogue", () => {
  it("that is shipped fits together: at least 400 gifts, titles in four languages, gifts for anybody", async () => {
    const catalogue = await loadCatalogue(SHIPPED);
    expect(catalogue.gifts.length).toBeGreaterThanOrEqual(400);
    expect(catalogue.gifts.some(({ tags }) => tags.includes("general"))).toBe(true);
    for (const locale of ["en", "es", "fr", "zh"] as const) {
      expect(new Set(catalogue.gifts.map(({ titles }) => titles[locale])).size).toBe(catalogue.gifts.length);
    }
  });

  it("is a snapshot that nobody can change", async () => {
    const catalogue = await loadCatalogue(folder);
    expect(Object.isFrozen(catalogue.gifts[0]?.titles)).toBe(true);
    expect(() => (catalogue.gifts as unknown[]).push({})).toThrow(TypeError);
  });

  it("has a version that changes with the content, and only then", async () => {
    const before = await loadCatalogue(folder);
    expect((await loadCatalogue(folder)).version).toBe(before.version);
    await damage("gifts.json", (gifts) => {
      gifts[0].priceCents += 1;
    });
    expect((await loadCatalogue(folder)).version).not.toBe(before.version);
  });
});

describe("a fault in the catalogue is named by file and entry", () => {
  it.each<[string, string, (json: Json) => void, RegExp]>([
    [
      "a price that is no whole number",
      "gifts.json",
      (g) => {
        g[2].priceCents = 9.5;
      },
      /gifts\.json is wrong at entry 3 \(GG-0003\), field priceCents/,
    ],
    [
      "a title that is missing",
      "gifts.json",
      (g) => {
        delete g[1].titles.zh;
      },
      /gifts\.json is wrong at entry 2 \(GG-0002\), field titles\.zh/,
    ],
    [
      "a field that nobody knows",
      "gifts.json",
      (g) => {
        g[0].colour = "red";
      },
      /gifts\.json is wrong at entry 1 \(GG-0001\)/,
    ],
    [
      "a sku used twice",
      "gifts.json",
      (g) => {
        g[1].sku = g[0].sku;
      },
      /entry GG-0001: another entry has the same sku/,
    ],
    [
      "a tag without an interest",
      "gifts.json",
      (g) => {
        g[0].tags = ["zorbing"];
      },
      /entry GG-0001: interests\.json has no interest zorbing/,
    ],
    [
      "a category without an entry",
      "gifts.json",
      (g) => {
        g[0].category = "__proto__";
      },
      /entry GG-0001: categories\.json has no category __proto__/,
    ],
    [
      "a currency without a rate",
      "gifts.json",
      (g) => {
        g[0].currency = "SEK";
      },
      /rates\.json has no rate for SEK/,
    ],
    [
      "a label that is missing",
      "interests.json",
      (i) => {
        delete i.hiking.labels.fr;
      },
      /interests\.json is wrong at entry hiking, field labels\.fr/,
    ],
    [
      "a department with an unknown tag",
      "departments.json",
      (d) => {
        d.sales.tags.push("zorbing");
      },
      /departments\.json is wrong at entry sales/,
    ],
    [
      "a rate of zero",
      "rates.json",
      (r) => {
        r.rates.EUR = 0;
      },
      /rates\.json is wrong at entry rates, field EUR/,
    ],
    [
      "a base whose rate is not 1",
      "rates.json",
      (r) => {
        r.rates.USD = 2;
      },
      /rates\.json is wrong at entry USD/,
    ],
  ])("%s", async (_what, file, change, sentence) => {
    await damage(file, change);
    await expect(loadCatalogue(folder)).rejects.toMatchObject({
      code: "BAD_CATALOGUE",
      message: expect.stringMatching(sentence),
      retryable: false,
    });
  });

  it("a file that is missing or is not JSON, without naming the folder", async () => {
    await writeFile(join(folder, "rates.json"), "{");
    await expect(loadCatalogue(folder)).rejects.toThrow("The catalogue's rates.json is not JSON.");
    await rm(join(folder, "gifts.json"));
    await expect(loadCatalogue(folder)).rejects.toThrow("The catalogue's gifts.json could not be read.");
  });
});
