/**
 * What people write → the keys that the catalogue knows.
 *
 *   phrase ── normalise ──▶ a name exactly?                      → its key
 *                           several parts ("chess and tea")?     → the keys of the parts
 *                           Chinese: names inside the phrase?    → their keys, the longest first
 *                           names found by MiniSearch whose words
 *                           all stand in the phrase, as typed?   → their keys, the longest and closest first
 *                           otherwise                            → nothing
 */
import MiniSearch from "minisearch";
import type { Topic } from "./catalogue.ts";
import { LOCALES } from "./catalogue.ts";
import { isHan, normalizePhrase, wordDistance } from "./spelling.ts";

export interface Vocabulary {
  /** The keys that a phrase means, in the order of the phrase; empty when it is not understood. */
  understand(phrase: string): readonly string[];
}

/** Longer phrases are prose, not names of interests. */
const MAX_PHRASE = 80;
/** Phrases remembered with their meaning; the oldest is forgotten first. */
const MAX_REMEMBERED = 10_000;
const MAX_CANDIDATES = 40;
const MAX_MEANINGS = 3;

const PARTS = /[\r\n/+&]+|\s(?:and|or|y|e|o|et|ou)\s|[和与及跟]/iu;
/** Words that carry no meaning of their own; they neither help nor hurt. */
const FILLERS: ReadonlySet<string> = new Set(
  "a an the of to for in on with i my we our like likes love loves enjoy all any de la el los las le les l d du des en un una une mi mes mon ma".split(
    " ",
  ),
);

interface Name {
  readonly id: number;
  readonly name: string;
  readonly words: readonly string[];
  readonly key: string;
}

interface Found {
  readonly name: Name;
  /** Which words of the phrase the name takes. */
  readonly taken: readonly number[];
  readonly distance: number;
}

/** Creates the vocabulary of interests or departments; labels win over synonyms, earlier entries over later ones. */
export function createVocabulary(topics: ReadonlyMap<string, Topic>): Vocabulary {
  const exact = new Map<string, string>();
  const names: Name[] = [];
  const learn = (text: string, key: string): void => {
    const name = normalizePhrase(text);
    if (name === "" || exact.has(name)) return;
    exact.set(name, key);
    names.push({ id: names.length, name, words: name.split(" "), key });
  };
  for (const [key, { labels }] of topics) for (const locale of LOCALES) learn(labels[locale], key);
  for (const [key, { synonyms }] of topics) for (const synonym of synonyms) learn(synonym, key);
  // A single Chinese character is a name only when it stands alone: 奶茶 is not 茶 with something before it.
  const hanNames = names
    .filter(({ name }) => isHan(name) && name.length > 1)
    .sort((a, b) => b.name.length - a.name.length || a.id - b.id);

  const search = new MiniSearch<Name>({
    fields: ["name"],
    tokenize: (text) => text.split(" "),
    processTerm: (term) => term,
    searchOptions: {
      combineWith: "OR",
      prefix: (term) => term.length >= 3,
      fuzzy: (term) => (term.length < 4 ? false : term.length < 8 ? 1 : 2),
    },
  });
  search.addAll(names);

  const remembered = new Map<string, readonly string[]>();

  function understand(phrase: string): readonly string[] {
    if (phrase.length > MAX_PHRASE) return [];
    const known = remembered.get(phrase);
    if (known !== undefined) return known;
    const meaning = Object.freeze(meaningOf(phrase));
    if (remembered.size >= MAX_REMEMBERED) {
      const oldest = remembered.keys().next().value;
      if (oldest !== undefined) remembered.delete(oldest);
    }
    remembered.set(phrase, meaning);
    return meaning;
  }

  function meaningOf(phrase: string): string[] {
    const plain = normalizePhrase(phrase);
    const key = exact.get(plain);
    if (key !== undefined) return [key];
    const parts = phrase.split(PARTS).filter((part) => part.trim() !== "");
    if (parts.length > 1) {
      const keys = new Set(parts.flatMap((part) => meaningOf(part)));
      if (keys.size > 0) return [...keys].slice(0, MAX_MEANINGS);
    }
    return isHan(plain) ? hanMeaning(plain) : wordMeaning(plain);
  }

  function hanMeaning(plain: string): string[] {
    const found: { at: number; key: string }[] = [];
    let left = plain;
    for (const { name, key } of hanNames) {
      const at = left.indexOf(name);
      if (at < 0) continue;
      found.push({ at, key });
      left = left.replace(name, " ".repeat(name.length));
    }
    return orderedKeys(found);
  }

  function wordMeaning(plain: string): string[] {
    const words = plain.split(" ").slice(0, 12);
    const candidates = search.search(plain).slice(0, MAX_CANDIDATES);
    const found = candidates
      .map(({ id }) => locate(names[id as number], words))
      .filter((each) => each !== undefined)
      .sort(
        (a, b) =>
          b.taken.length - a.taken.length ||
          a.distance - b.distance ||
          b.name.name.length - a.name.name.length ||
          a.name.id - b.name.id,
      );
    const chosen: { at: number; key: string }[] = [];
    const taken = new Set<number>();
    for (const each of found) {
      if (each.taken.some((at) => taken.has(at))) continue;
      for (const at of each.taken) taken.add(at);
      chosen.push({ at: each.taken[0] ?? 0, key: each.name.key });
    }
    // Most of what was written must be understood, or the rest was what mattered.
    const weighty = words.filter((word) => !FILLERS.has(word)).length;
    return taken.size * 2 >= weighty ? orderedKeys(chosen) : [];
  }

  return { understand };
}

/** Where all words of a name stand in the phrase. */
function locate(name: Name | undefined, words: readonly string[]): Found | undefined {
  // "the beach" is not about thé.
  if (name === undefined || name.words.every((word) => FILLERS.has(word))) return undefined;
  const taken: number[] = [];
  let distance = 0;
  for (const known of name.words) {
    let bestAt = -1;
    let best = Number.POSITIVE_INFINITY;
    for (const [at, typed] of words.entries()) {
      const far = taken.includes(at) ? undefined : wordDistance(typed, known);
      if (far !== undefined && far < best) {
        best = far;
        bestAt = at;
      }
    }
    if (bestAt < 0) return undefined;
    taken.push(bestAt);
    distance += best;
  }
  return { name, taken: taken.sort((a, b) => a - b), distance };
}

function orderedKeys(found: { at: number; key: string }[]): string[] {
  return [...new Set(found.sort((a, b) => a.at - b.at).map(({ key }) => key))].slice(0, MAX_MEANINGS);
}
