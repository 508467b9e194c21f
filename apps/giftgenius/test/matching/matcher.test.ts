import { createReadStream } from "node:fs";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { readEmployees } from "../../src/intake/read-employees.ts";
import type { Catalogue, Gift, Locale } from "../../src/matching/catalogue.ts";
import { LOCALES, loadCatalogue } from "../../src/matching/catalogue.ts";
import type { Match, Matcher, MatcherOptions, Person } from "../../src/matching/matcher.ts";
import { createMatcher } from "../../src/matching/matcher.ts";

let catalogue: Catalogue;
let gifts: Map<string, Gift>;
beforeAll(async () => {
  catalogue = await loadCatalogue(fileURLToPath(new URL("../../catalogue", import.meta.url)));
  gifts = new Map(catalogue.gifts.map((gift) => [gift.sku, gift]));
});

const matchers = new Map<string, Matcher>();
function matcherOf(options: Partial<MatcherOptions>): Matcher {
  const whole = { locale: "en", currency: "USD", giftsPerEmployee: 3, ...options } as const;
  const key = JSON.stringify(whole);
  const matcher = matchers.get(key) ?? createMatcher(catalogue, whole);
  matchers.set(key, matcher);
  return matcher;
}

function match(person: Partial<Person>, options: Partial<MatcherOptions> = {}): Match {
  const nobody = { email: "ada@example.com", department: "", interests: [], budgetCents: 5000 };
  return matcherOf(options).match({ ...nobody, ...person });
}

const tagsOf = ({ gifts: chosen }: Match): string[][] =>
  chosen.map(({ sku }) => [...(gifts.get(sku)?.tags ?? [])]);

describe("gifts answer the person's interests", () => {
  it.each<[Locale, string, string]>([
    ["en", "hiking", "Matches the interest “hiking”"],
    ["es", "senderismo", "Responde al interés «senderismo»"],
    ["fr", "randonnée", "Répond au centre d’intérêt « randonnée »"],
    ["zh", "徒步", "符合兴趣“徒步”"],
  ])(
    "in %s: the reason, the title and the category are in the run's language",
    (locale, interest, reason) => {
      const { gifts: chosen } = match({ interests: [interest] }, { locale });
      expect(chosen).toHaveLength(3);
      for (const { sku, title, category, reason: given } of chosen) {
        const gift = gifts.get(sku);
        expect(gift?.tags).toContain("hiking");
        expect(title).toBe(gift?.titles[locale]);
        expect(category).toBe(catalogue.categories.get(gift?.category ?? "")?.labels[locale]);
        expect(given).toContain(reason.slice(-6));
      }
      expect(chosen.some(({ reason: given }) => given === reason)).toBe(true);
    },
  );

  it("one for each of three interests, before a second for any", () => {
    const found = tagsOf(match({ interests: ["chess", "tea", "gardening"], budgetCents: 6000 }));
    for (const tag of ["chess", "tea", "gardening"])
      expect(found.filter((tags) => tags.includes(tag))).toHaveLength(1);
  });

  it("whatever language they are written in, beside words that nobody understands", () => {
    const found = match({ interests: ["echecs", "茶", "quidditch"] });
    expect(found.understood).toEqual(["chess", "tea"]);
    expect(found.unknown).toEqual(["quidditch"]);
    expect(found.warnings).toMatchObject([
      { code: "UNKNOWN_INTEREST", message: 'The catalogue knows nothing for "quidditch".' },
    ]);
    expect(found.gifts).toHaveLength(3);
  });

  it("and name every interest that they answer", () => {
    const both = match(
      { interests: ["hiking", "camping"], budgetCents: 8000 },
      { giftsPerEmployee: 5 },
    ).gifts.filter(({ sku }) => ["hiking", "camping"].every((tag) => gifts.get(sku)?.tags.includes(tag)));
    expect(both.length).toBeGreaterThan(0);
    for (const { reason } of both)
      expect(reason).toMatch(/interests “(hiking” and “camping|camping” and “hiking)”/);
  });
});

describe("the budget", () => {
  it("is never passed, in any currency, for anybody", () => {
    const tags = [...catalogue.interests.keys()];
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...tags), { maxLength: 5 }),
        fc.integer({ min: 1, max: 60_000 }),
        fc.constantFrom(...catalogue.rates.rates.keys()),
        fc.integer({ min: 1, max: 5 }),
        fc.emailAddress(),
        (interests, budgetCents, currency, giftsPerEmployee, email) => {
          const found = match({ interests, budgetCents, email }, { currency, giftsPerEmployee });
          expect(found.gifts.length).toBeLessThanOrEqual(giftsPerEmployee);
          expect(new Set(found.gifts.map(({ sku }) => sku)).size).toBe(found.gifts.length);
          for (const { priceCents } of found.gifts) expect(priceCents).toBeLessThanOrEqual(budgetCents);
        },
      ),
      { numRuns: 300, seed: 20_251 },
    );
  });

  it("is used: with enough money the first gift is no trifle", () => {
    for (const interest of ["chess", "coffee", "music", "gardening", "photography"]) {
      expect(match({ interests: [interest], budgetCents: 4000 }).gifts[0]?.priceCents).toBeGreaterThanOrEqual(
        1600,
      );
    }
  });

  it("when small: the best that it buys; when nothing costs so little: nothing, and a warning", () => {
    expect(match({ interests: ["hiking"], budgetCents: 1300 }).gifts.length).toBeGreaterThan(0);
    expect(match({ interests: ["hiking"], budgetCents: 100 })).toMatchObject({
      gifts: [],
      warnings: [{ code: "NOTHING_IN_BUDGET", message: expect.stringContaining("1.00 USD") }],
    });
  });

  it("is counted in the run's currency, in whole units where it has no smaller ones", () => {
    const { gifts: chosen } = match({ interests: ["tea"], budgetCents: 500_000 }, { currency: "JPY" });
    for (const { sku, priceCents } of chosen) {
      expect(priceCents % 100).toBe(0);
      expect(priceCents).toBe(Math.round(((gifts.get(sku)?.priceCents ?? 0) * 154.6) / 100) * 100);
    }
  });
});

describe("without an interest to go by", () => {
  it("gifts suit anybody, and say why", () => {
    const none = match({});
    expect(tagsOf(none).every((tags) => tags.includes("general"))).toBe(true);
    expect(none.gifts[0]?.reason).toBe("Suits almost anyone: no interests were given");
    expect(match({ interests: ["quidditch"] }).gifts[0]?.reason).toBe(
      "Suits almost anyone: the interests given were not recognised",
    );
    expect(match({ interests: ["surprise me"] })).toMatchObject({
      unknown: [],
      gifts: [{ reason: "Suits almost anyone: no interests were given" }, {}, {}],
    });
  });

  it("the department is a hint, named as such, and one gift stays general", () => {
    const { gifts: chosen } = match({ department: "Finanzas" }, { locale: "en" });
    expect(chosen.map(({ reason }) => reason)).toEqual([
      "Picked with the department “Finance” in mind: no interests were given",
      "Picked with the department “Finance” in mind: no interests were given",
      "Suits almost anyone: no interests were given",
    ]);
  });

  it("the department does not speak when the person has", () => {
    const found = match({ department: "Finance", interests: ["dogs"], budgetCents: 10_000 });
    for (const tags of tagsOf(found)) expect(tags).toContain("dogs");
  });

  it("gifts that fill up say that nothing more fits", () => {
    const { gifts: chosen } = match({ interests: ["surfing"], budgetCents: 2000 }, { giftsPerEmployee: 5 });
    expect(chosen.at(-1)?.reason).toBe(
      "Suits almost anyone: nothing more for the interests given fits the budget",
    );
  });
});

describe("alcohol", () => {
  it("is for those who asked for it, and reaches nobody else by another tag", () => {
    const adults = catalogue.gifts.filter(({ adult }) => adult);
    expect(adults.length).toBeGreaterThan(0);
    const asked = new Set(adults.map(({ tags }) => tags[0]));
    const others = [...catalogue.interests.keys()].filter((tag) => !asked.has(tag));
    for (const interest of others) {
      for (let i = 0; i < 5; i += 1) {
        const person = { email: `p${i}@example.com`, interests: [interest], budgetCents: 20_000 };
        const { gifts: chosen } = match(person, { giftsPerEmployee: 5 });
        expect(chosen.some(({ sku }) => gifts.get(sku)?.adult)).toBe(false);
      }
    }
    const offered = [...asked].flatMap(
      (interest) =>
        match({ interests: [interest ?? ""], budgetCents: 20_000 }, { giftsPerEmployee: 5 }).gifts,
    );
    expect(offered.some(({ sku }) => gifts.get(sku)?.adult)).toBe(true);
  });
});

describe("the same input", () => {
  it("gives the same output, byte for byte, in another matcher and in any order", () => {
    const people = Array.from({ length: 50 }, (_, i) => ({
      email: `p${i}@example.com`,
      interests: [["chess"], ["tea", "dogs"], [], ["quidditch"]][i % 4] ?? [],
      budgetCents: 1000 + 150 * i,
    }));
    const forward = people.map((person) => JSON.stringify(match(person)));
    const another = createMatcher(catalogue, { locale: "en", currency: "USD", giftsPerEmployee: 3 });
    const backward = people
      .map((person) => ({ department: "", ...person }))
      .toReversed()
      .map((person) => JSON.stringify(another.match(person)));
    expect(backward.toReversed()).toEqual(forward);
  });

  it("of colleagues gives them different gifts where there is a choice", () => {
    const first = Array.from({ length: 40 }, (_, i) =>
      match({ email: `p${i}@example.com`, interests: ["gadgets"], budgetCents: 9000 }),
    ).map(({ gifts: chosen }) => chosen[0]?.sku);
    expect(new Set(first).size).toBeGreaterThanOrEqual(5);
    expect(Math.max(...first.map((sku) => first.filter((other) => other === sku).length))).toBeLessThan(20);
  });

  it("does not depend on how the address is written", () => {
    const one = match({ email: "Ada@Example.com", interests: ["music"] });
    expect(match({ email: " ada@example.COM ", interests: ["music"] })).toEqual(one);
  });
});

describe("options that cannot be", () => {
  it("a currency without a rate, a language without texts, no gifts at all", () => {
    const options = { locale: "en", currency: "USD", giftsPerEmployee: 3 } as const;
    expect(() => createMatcher(catalogue, { ...options, currency: "__proto__" })).toThrow(/no prices in/);
    expect(() => createMatcher(catalogue, { ...options, locale: "de" as Locale })).toThrow(/language "de"/);
    expect(() => createMatcher(catalogue, { ...options, giftsPerEmployee: 0 })).toThrow(/0 gifts/);
    expect(LOCALES).toHaveLength(4);
  });
});

it("the example: 1,994 people get three gifts each, seven have an interest that nobody knows", async () => {
  const matcher = createMatcher(catalogue, { locale: "en", currency: "USD", giftsPerEmployee: 3 });
  const source = createReadStream(new URL("../../examples/employees-2000.csv", import.meta.url));
  const counts = { people: 0, gifts: 0, warnings: 0 };
  const codes = new Set<string>();
  const skus = new Set<string>();
  for await (const record of readEmployees(source, { currency: "USD" })) {
    if (record.outcome === "rejected") continue;
    const { gifts: chosen, warnings } = matcher.match(record.employee);
    counts.people += 1;
    counts.gifts += chosen.length;
    counts.warnings += warnings.length + record.warnings.length;
    for (const { code } of [...warnings, ...record.warnings]) codes.add(code);
    for (const { sku } of chosen) skus.add(sku);
  }
  expect(counts).toEqual({ people: 1994, gifts: 5982, warnings: 8 });
  expect([...codes].sort()).toEqual(["BUDGET_UNCLEAR", "UNKNOWN_INTEREST"]);
  expect(skus.size).toBeGreaterThan(250);
});
