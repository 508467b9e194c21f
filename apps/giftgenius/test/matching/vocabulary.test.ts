import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import type { Catalogue } from "../../src/matching/catalogue.ts";
import { loadCatalogue } from "../../src/matching/catalogue.ts";
import { normalizePhrase, wordDistance } from "../../src/matching/spelling.ts";
import type { Vocabulary } from "../../src/matching/vocabulary.ts";
import { createVocabulary } from "../../src/matching/vocabulary.ts";

let catalogue: Catalogue;
let interests: Vocabulary;
beforeAll(async () => {
  catalogue = await loadCatalogue(fileURLToPath(new URL("../../catalogue", import.meta.url)));
  interests = createVocabulary(catalogue.interests);
});

describe("what people write is understood", () => {
  it.each([
    // four languages
    ["hiking", "hiking"],
    ["senderismo", "hiking"],
    ["randonnée", "hiking"],
    ["徒步", "hiking"],
    ["ÉCHECS", "chess"],
    ["Poésie", "poetry"],
    ["vino", "wine"],
    // synonyms, plurals, other endings
    ["soccer", "football"],
    ["board game", "board_games"],
    ["teas", "tea"],
    ["drone", "drones"],
    ["gardener", "gardening"],
    // slips of the keyboard
    ["hikng", "hiking"],
    ["photograhy", "photography"],
    ["senderimo", "hiking"],
    ["randonee", "hiking"],
    ["jeux de societe", "board_games"],
    ["jugar al ajedres", "chess"],
    ["chese", "cheese"],
    ["choclate", "chocolate"],
    // within other words
    ["I love my dog", "dogs"],
    ["landscape photography", "photography"],
    ['12" vinyl', "vinyl"],
    ["🎲 dice", "tabletop_rpg"],
    // several in one
    ["Chess and tea", "chess tea"],
    ["yoga / meditation", "yoga meditation"],
    ["hiking\nclimbing", "hiking climbing"],
    ["喜欢喝茶和徒步", "tea hiking"],
    ["sci-fi films", "science_fiction films"],
  ])("%j means %s", (phrase, keys) => {
    expect(interests.understand(phrase).join(" ")).toBe(keys);
  });
});

describe("what only looks alike is not", () => {
  it.each([
    "gold",
    "the beach",
    "奶茶",
    "board meetings",
    "stag",
    "x",
    "12345",
    "-",
    "",
    "   ",
    "🎲",
    "quidditch",
    "%%%",
  ])("%j means nothing", (phrase) => {
    expect(interests.understand(phrase)).toEqual([]);
  });

  it("short words are compared exactly, long ones with a slip for every four letters", () => {
    expect(wordDistance("golf", "gold")).toBeUndefined();
    expect(wordDistance("cards", "cars")).toBeUndefined();
    expect(wordDistance("booking", "cooking")).toBeUndefined();
    expect(wordDistance("cyclnig", "cycling")).toBe(2);
    expect(wordDistance("proto", "photo")).toBeUndefined();
    expect(wordDistance("musik", "music")).toBe(1);
    expect(wordDistance("photgrphy", "photography")).toBe(3);
  });

  it("names of JavaScript are words like any other", () => {
    for (const word of ["__proto__", "constructor", "toString"])
      expect(interests.understand(word)).toEqual([]);
  });

  it("a page of prose is not searched", () => {
    expect(interests.understand("hiking ".repeat(10_000))).toEqual([]);
  });
});

it("departments are understood the same way", () => {
  const departments = createVocabulary(catalogue.departments);
  const keys = ["Sales", "Ventas", "RH", "财务部", "R&D – Köln", "Sales EMEA"].map(
    (name) => departments.understand(name)[0],
  );
  expect(keys).toEqual(["sales", "sales", "human_resources", "finance", "research", "sales"]);
});

it("phrases are brought into one form: case, accents, punctuation and widths do not count", () => {
  expect(normalizePhrase("  L’Œnologie!  ")).toBe("l oenologie");
  expect(normalizePhrase("Ｃｈｅｓｓ")).toBe("chess");
});

it("all labels of an interest mean it, in every language", () => {
  for (const [key, { labels }] of catalogue.interests) {
    for (const label of Object.values(labels))
      expect([label, interests.understand(label)[0]]).toEqual([label, key]);
  }
});
