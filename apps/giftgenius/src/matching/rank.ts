/**
 * Which gift is better for a person: one number for each gift, made of
 *
 *   how well it answers the interest    1 for its first tag, less for later ones
 *   further interests it answers too    + 0.3 each
 *   how well it uses the budget         1 from 40 % to all of it, 0.75 falling to 0.1 below; what costs more is out
 *   a tag common in the department      + 0.05
 *   chance, the same for ever           + 0 to 0.25 by a hash of person and sku: colleagues get different gifts
 */
import { PermanentError } from "tidings";
import { hasWholeUnits } from "../intake/money.ts";
import type { Catalogue, Gift, Locale } from "./catalogue.ts";

/** A gift with its price and texts in the run's currency and language. */
export interface Offer {
  readonly sku: string;
  readonly title: string;
  readonly category: string;
  readonly priceCents: number;
  readonly tags: readonly string[];
  readonly adult: boolean;
  readonly skuHash: number;
}

/** What counts about a person. */
export interface Wishes {
  readonly budgetCents: number;
  /** Makes the person's chance. */
  readonly seed: number;
  readonly interests: readonly string[];
  /** Tags that are common in the person's department. */
  readonly nudges: readonly string[];
}

export interface PickedOffer {
  readonly offer: Offer;
  /** The tags among those asked for that the gift answers, the one it was picked for first. */
  readonly answers: readonly string[];
}

/** The choosing of gifts for one person; remembers what was picked. */
export interface Choice {
  /** Picks up to `count` gifts for the tags: the best first, then the best for tags without a gift, and so on around. */
  spread(tags: readonly string[], count: number): PickedOffer[];
}

export interface Ranking {
  begin(wishes: Wishes): Choice;
}

const GOOD_SHARE = 0.4;
const BELOW = 0.75;
const TRIFLE = 0.1;
const FURTHER_INTEREST = 0.3;
const NUDGE = 0.05;
const CHANCE = 0.25;
const TAG_ORDER = [1, 0.85, 0.75];

/** Prepares the offers of a catalogue. @throws PermanentError `UNKNOWN_CURRENCY`. */
export function createRanking(
  catalogue: Catalogue,
  { locale, currency }: { readonly locale: Locale; readonly currency: string },
): Ranking {
  const offersByTag = new Map<string, Offer[]>();
  // What answers an interest in alcohol must not reach people by another of its tags.
  const adultTags = new Set(catalogue.gifts.filter(({ adult }) => adult).map(({ tags }) => tags[0] ?? ""));
  for (const gift of catalogue.gifts) {
    const offer: Offer = {
      sku: gift.sku,
      title: gift.titles[locale],
      category: catalogue.categories.get(gift.category)?.labels[locale] ?? gift.category,
      priceCents: priceIn(catalogue, gift, currency),
      tags: gift.tags,
      adult: gift.adult,
      skuHash: hashText(gift.sku),
    };
    for (const tag of gift.tags) {
      const offers = offersByTag.get(tag);
      if (offers === undefined) offersByTag.set(tag, [offer]);
      else offers.push(offer);
    }
  }

  function begin({ budgetCents, seed, interests, nudges }: Wishes): Choice {
    const picked = new Set<string>();

    function isOpen(offer: Offer, tag: string): boolean {
      if (offer.priceCents > budgetCents || picked.has(offer.sku)) return false;
      return !offer.adult || (adultTags.has(tag) && interests.includes(tag));
    }

    function score(offer: Offer, tag: string, tags: readonly string[]): number {
      const share = offer.priceCents / budgetCents;
      const fit = share >= GOOD_SHARE ? 1 : TRIFLE + (BELOW - TRIFLE) * (share / GOOD_SHARE);
      let answers = TAG_ORDER[offer.tags.indexOf(tag)] ?? 0.6;
      let nudge = 0;
      for (const each of offer.tags) {
        if (each !== tag && tags.includes(each)) answers += FURTHER_INTEREST;
        if (nudges.includes(each)) nudge = NUDGE;
      }
      return answers * fit + nudge + CHANCE * chance(seed, offer.skuHash);
    }

    function best(
      wanted: readonly string[],
      tags: readonly string[],
    ): { offer: Offer; tag: string } | undefined {
      let found: { offer: Offer; tag: string } | undefined;
      let foundScore = -1;
      for (const tag of wanted) {
        for (const offer of offersByTag.get(tag) ?? []) {
          if (!isOpen(offer, tag)) continue;
          const offerScore = score(offer, tag, tags);
          if (offerScore > foundScore) {
            found = { offer, tag };
            foundScore = offerScore;
          }
        }
      }
      return found;
    }

    function spread(tags: readonly string[], count: number): PickedOffer[] {
      const picks: PickedOffer[] = [];
      let waiting = tags;
      while (picks.length < count && tags.length > 0) {
        const found = best(waiting, tags);
        if (found === undefined) {
          if (waiting.length === tags.length) break;
          waiting = tags;
          continue;
        }
        const { offer, tag } = found;
        const answers = [tag, ...offer.tags.filter((each) => each !== tag && tags.includes(each))];
        picked.add(offer.sku);
        picks.push({ offer, answers });
        waiting = waiting.filter((each) => !answers.includes(each));
        if (waiting.length === 0) waiting = tags;
      }
      return picks;
    }

    return { spread };
  }

  return { begin };
}

/** The price in hundredths of the currency, to the whole unit where it has no smaller ones. */
function priceIn({ rates }: Catalogue, gift: Gift, currency: string): number {
  const to = rates.rates.get(currency);
  const from = rates.rates.get(gift.currency);
  if (to === undefined || from === undefined) {
    throw new PermanentError(
      "UNKNOWN_CURRENCY",
      `The catalogue has no prices in ${JSON.stringify(currency)}.`,
      {
        hint: `Choose one of ${[...rates.rates.keys()].join(", ")}.`,
      },
    );
  }
  const cents = (gift.priceCents * to) / from;
  return hasWholeUnits(currency)
    ? Math.max(100, Math.round(cents / 100) * 100)
    : Math.max(1, Math.round(cents));
}

/** FNV-1a, 32 bits: the same in every process and on every machine. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    hash ^= text.charCodeAt(i);
    hash = Math.imul(hash, 0x01000193);
  }
  return hash >>> 0;
}

/** 0 ≤ x < 1 for a person and a gift. */
function chance(seed: number, skuHash: number): number {
  let mixed = Math.imul(seed ^ skuHash, 0x9e3779b1);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b);
  mixed ^= mixed >>> 13;
  return (mixed >>> 0) / 0x1_0000_0000;
}
