/**
 * Gifts for one person.
 *
 *   interests ─ vocabulary ─▶ tags ──▶ affordable gifts for the tags, best first, spread over the tags
 *                                        │ not enough?
 *   department ─ vocabulary ─▶ tags ──▶ gifts for the department, when no interest was understood
 *                                        │ not enough?
 *                                      general gifts, the department only as a nudge
 *
 * Every gift costs at most the budget. The same catalogue, options and person give the same answer, byte for byte.
 */
import { PermanentError } from "tidings";
import { normalizeEmail } from "../intake/email.ts";
import type { Employee } from "../intake/judge-row.ts";
import type { Catalogue, Locale } from "./catalogue.ts";
import { GENERAL, LOCALES } from "./catalogue.ts";
import type { Offer } from "./rank.ts";
import { createRanking, hashText } from "./rank.ts";
import type { Lack } from "./reason.ts";
import { departmentReason, generalReason, interestReason } from "./reason.ts";
import { createVocabulary } from "./vocabulary.ts";

export type { Locale } from "./catalogue.ts";

export interface MatcherOptions {
  /** The language of titles, categories and reasons. */
  readonly locale: Locale;
  /** ISO code of the currency of budgets and prices; `rates.json` must have it. */
  readonly currency: string;
  /** 1 to 5. */
  readonly giftsPerEmployee: number;
}

/** A gift for a person, in the run's language and currency. */
export interface GiftIdea {
  readonly sku: string;
  readonly title: string;
  /** Hundredths of the run's currency, whole units where it has no smaller ones; at most the person's budget. */
  readonly priceCents: number;
  readonly category: string;
  /** One sentence: the interest that the gift answers, or that there is none. */
  readonly reason: string;
}

/** What the matcher makes of a person's words. */
export interface Understanding {
  /** Keys of `interests.json`, in the order of the file, without `general`. */
  readonly understood: readonly string[];
  /** Interests as written that mean nothing to the catalogue. */
  readonly unknown: readonly string[];
  /** Key of `departments.json`. */
  readonly department?: string;
}

export interface Match extends Understanding {
  /** The best first; fewer than asked for when the budget allows no more; never one twice. */
  readonly gifts: readonly GiftIdea[];
  /** `UNKNOWN_INTEREST` for what was not understood (one warning for all), `NOTHING_IN_BUDGET` when `gifts` is empty. */
  readonly warnings: readonly { readonly code: string; readonly message: string }[];
}

export type Person = Pick<Employee, "email" | "department" | "interests" | "budgetCents">;

export interface Matcher {
  /** What the person's interests and department mean; cheap to ask again. */
  understand(person: Pick<Employee, "department" | "interests">): Understanding;
  /** Chooses gifts for a person. */
  match(person: Person): Match;
}

/**
 * Creates the matcher of one run over one state of the catalogue.
 *
 * @throws PermanentError `UNKNOWN_CURRENCY` when the catalogue cannot convert into the currency, `BAD_INPUT` for a
 *   language or a number of gifts that does not exist.
 */
export function createMatcher(catalogue: Catalogue, options: MatcherOptions): Matcher {
  const { locale, currency, giftsPerEmployee } = options;
  if (!LOCALES.includes(locale)) {
    throw new PermanentError("BAD_INPUT", `There are no texts in the language ${JSON.stringify(locale)}.`, {
      hint: `Choose one of ${LOCALES.join(", ")}.`,
    });
  }
  if (!Number.isInteger(giftsPerEmployee) || giftsPerEmployee < 1 || giftsPerEmployee > 5) {
    throw new PermanentError("BAD_INPUT", `${giftsPerEmployee} gifts for each employee cannot be chosen.`, {
      hint: "Ask for 1 to 5.",
    });
  }
  const ranking = createRanking(catalogue, { locale, currency });
  const interests = createVocabulary(catalogue.interests);
  const departments = createVocabulary(catalogue.departments);
  const labelOf = (tag: string): string => catalogue.interests.get(tag)?.labels[locale] ?? tag;

  function understand(person: Pick<Employee, "department" | "interests">): Understanding {
    const understood = new Set<string>();
    const unknown: string[] = [];
    for (const phrase of person.interests) {
      const tags = interests.understand(phrase);
      if (tags.length === 0) unknown.push(phrase);
      for (const tag of tags) if (tag !== GENERAL) understood.add(tag);
    }
    const [department] = person.department === "" ? [] : departments.understand(person.department);
    return { understood: [...understood], unknown, ...(department === undefined ? {} : { department }) };
  }

  function match(person: Person): Match {
    const understanding = understand(person);
    const { understood, unknown, department } = understanding;
    const departmentTags =
      department === undefined ? [] : (catalogue.departments.get(department)?.tags ?? []);
    const choice = ranking.begin({
      budgetCents: person.budgetCents,
      seed: hashText(normalizeEmail(person.email)),
      interests: understood,
      nudges: departmentTags,
    });
    const gifts: GiftIdea[] = [];
    const take = (offer: Offer, reason: string): void => {
      const { sku, title, priceCents, category } = offer;
      gifts.push({ sku, title, priceCents, category, reason });
    };

    for (const { offer, answers } of choice.spread(understood, giftsPerEmployee)) {
      take(offer, interestReason(locale, answers.map(labelOf)));
    }
    const lack = lackOf(person.interests, understood, unknown);
    if (understood.length === 0 && department !== undefined) {
      // One gift stays general: the department is a guess about the person.
      const label = catalogue.departments.get(department)?.labels[locale] ?? department;
      for (const { offer } of choice.spread(departmentTags, Math.max(1, giftsPerEmployee - 1))) {
        take(offer, departmentReason(locale, label, lack));
      }
    }
    for (const { offer } of choice.spread([GENERAL], giftsPerEmployee - gifts.length)) {
      take(offer, generalReason(locale, lack));
    }
    return { ...understanding, gifts, warnings: warningsOf(person, unknown, gifts.length, currency) };
  }

  return { understand, match };
}

function lackOf(given: readonly string[], understood: readonly string[], unknown: readonly string[]): Lack {
  if (understood.length > 0) return "none_left";
  return given.length > 0 && unknown.length > 0 ? "none_understood" : "none_given";
}

function warningsOf(
  person: Person,
  unknown: readonly string[],
  gifts: number,
  currency: string,
): Match["warnings"] {
  const warnings: { code: string; message: string }[] = [];
  if (unknown.length > 0) {
    const shown = unknown.slice(0, 5).map((phrase) => JSON.stringify(phrase.slice(0, 40)));
    const more = unknown.length > shown.length ? ` and ${unknown.length - shown.length} more` : "";
    warnings.push({
      code: "UNKNOWN_INTEREST",
      message: `The catalogue knows nothing for ${shown.join(", ")}${more}.`,
    });
  }
  if (gifts === 0) {
    warnings.push({
      code: "NOTHING_IN_BUDGET",
      message: `Nothing in the catalogue that suits costs ${(person.budgetCents / 100).toFixed(2)} ${currency} or less.`,
    });
  }
  return warnings;
}
