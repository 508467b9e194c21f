/** The shop's catalogue: read from its five JSON files, checked, and frozen as one snapshot under one version. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { PermanentError } from "tidings";
import { z } from "zod";

export const LOCALES = ["en", "es", "fr", "zh"] as const;
export type Locale = (typeof LOCALES)[number];

/** One text in each language. */
export type Labels = Readonly<Record<Locale, string>>;

export interface Gift {
  readonly sku: string;
  /** A key of `categories`. */
  readonly category: string;
  /** Keys of `interests`, the one it answers best first. */
  readonly tags: readonly string[];
  /** Hundredths of `currency`. */
  readonly priceCents: number;
  readonly currency: string;
  /** For adults who asked for it (alcohol). */
  readonly adult: boolean;
  readonly titles: Labels;
}

/** An interest or a department, with the other words for it in all languages. */
export interface Topic {
  readonly labels: Labels;
  readonly synonyms: readonly string[];
}

export interface Department extends Topic {
  /** Interests that are common there. */
  readonly tags: readonly string[];
}

/** What one unit of the base currency costs in others, on one day. */
export interface Rates {
  /** The day, `YYYY-MM-DD`. */
  readonly asOf: string;
  readonly base: string;
  readonly rates: ReadonlyMap<string, number>;
}

/** The contents of the catalogue's files, in the order of `FILES`. */
export type CatalogueTexts = readonly string[];

/** One state of the shop's catalogue; never changes. */
export interface Catalogue {
  /** Changes when anything in the catalogue changes, and only then. */
  readonly version: string;
  /** What it was read from; `parseCatalogue` makes the same of it again. */
  readonly texts: CatalogueTexts;
  readonly gifts: readonly Gift[];
  readonly interests: ReadonlyMap<string, Topic>;
  readonly categories: ReadonlyMap<string, { readonly labels: Labels }>;
  readonly departments: ReadonlyMap<string, Department>;
  readonly rates: Rates;
}

/** The interest of gifts that suit anybody. */
export const GENERAL = "general";

/** The files of a catalogue, without `.json`. */
export const FILES = ["gifts", "interests", "categories", "departments", "rates"] as const;
type FileName = (typeof FILES)[number];

const text = z.string().trim().min(1).max(200);
const labels = z.strictObject({ en: text, es: text, fr: text, zh: text });
const currency = z.string().regex(/^[A-Z]{3}$/);
const topic = z.strictObject({ labels, synonyms: z.array(text) });

const schemas = {
  gifts: z
    .array(
      z.strictObject({
        sku: text,
        category: text,
        tags: z.array(text).min(1),
        priceCents: z.int().min(1),
        currency,
        adult: z.boolean().default(false),
        titles: labels,
      }),
    )
    .min(1),
  interests: z.record(text, topic),
  categories: z.record(text, z.strictObject({ labels })),
  departments: z.record(text, topic.extend({ tags: z.array(text) })),
  rates: z.strictObject({
    asOf: z.iso.date(),
    base: currency,
    rates: z.record(currency, z.number().positive()),
  }),
};

/** Reads and checks the files of a folder. @throws PermanentError as `parseCatalogue` */
export async function loadCatalogue(folder: string): Promise<Catalogue> {
  return parseCatalogue(await Promise.all(FILES.map((name) => readText(folder, name))));
}

/**
 * Reads `gifts.json`, `interests.json`, `categories.json`, `departments.json` and `rates.json` and checks that
 * they fit together.
 *
 * @throws PermanentError `BAD_CATALOGUE` with a sentence that names the file and the entry at fault.
 */
export function parseCatalogue(texts: CatalogueTexts): Catalogue {
  const digest = createHash("sha256");
  for (const content of texts) digest.update(String(content.length)).update(":").update(content);
  const contentOf = (name: FileName): string => texts[FILES.indexOf(name)] ?? "";

  const gifts: readonly Gift[] = parse("gifts", contentOf("gifts"), schemas.gifts);
  const interests = mapOf(parse("interests", contentOf("interests"), schemas.interests));
  const categories = mapOf(parse("categories", contentOf("categories"), schemas.categories));
  const departments = mapOf(parse("departments", contentOf("departments"), schemas.departments));
  const { asOf, base, rates } = parse("rates", contentOf("rates"), schemas.rates);
  const catalogue: Catalogue = {
    version: digest.digest("hex").slice(0, 16),
    texts: [...texts],
    gifts,
    interests,
    categories,
    departments,
    rates: { asOf, base, rates: mapOf(rates) },
  };
  checkReferences(catalogue);
  return deepFreeze(catalogue);
}

async function readText(folder: string, name: FileName): Promise<string> {
  try {
    return await readFile(join(folder, `${name}.json`), "utf8");
  } catch (cause) {
    throw badCatalogue(name, "could not be read", cause);
  }
}

function parse<T>(name: FileName, content: string, schema: z.ZodType<T>): T {
  let json: unknown;
  try {
    json = JSON.parse(content);
  } catch (cause) {
    throw badCatalogue(name, "is not JSON", cause);
  }
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const [entry, ...field] = issue?.path ?? [];
  const place = [
    ...(entry === undefined ? [] : [`entry ${entryName(json, entry)}`]),
    ...(field.length === 0 ? [] : [`field ${field.join(".")}`]),
  ].join(", ");
  throw badCatalogue(name, `${place === "" ? "is wrong" : `is wrong at ${place}`}: ${issue?.message ?? ""}`);
}

/** `12 (GG-0013)` in a list, the key elsewhere. */
function entryName(json: unknown, entry: PropertyKey): string {
  const item: unknown = typeof entry === "number" && Array.isArray(json) ? json[entry] : undefined;
  const sku = typeof item === "object" && item !== null && "sku" in item ? item.sku : undefined;
  return typeof entry === "number"
    ? `${entry + 1}${typeof sku === "string" ? ` (${sku})` : ""}`
    : String(entry);
}

function checkReferences(catalogue: Catalogue): void {
  const { gifts, interests, categories, departments, rates } = catalogue;
  const skus = new Set<string>();
  for (const gift of gifts) {
    const fault = (what: string) => badCatalogue("gifts", `is wrong at entry ${gift.sku}: ${what}`);
    if (skus.has(gift.sku)) throw fault("another entry has the same sku");
    skus.add(gift.sku);
    if (!categories.has(gift.category)) throw fault(`categories.json has no category ${gift.category}`);
    if (!rates.rates.has(gift.currency)) throw fault(`rates.json has no rate for ${gift.currency}`);
    const tag = gift.tags.find((key) => !interests.has(key));
    if (tag !== undefined) throw fault(`interests.json has no interest ${tag}`);
  }
  for (const [key, department] of departments) {
    const tag = department.tags.find((each) => !interests.has(each));
    if (tag !== undefined) {
      throw badCatalogue("departments", `is wrong at entry ${key}: interests.json has no interest ${tag}`);
    }
  }
  if (rates.rates.get(rates.base) !== 1) {
    throw badCatalogue("rates", `is wrong at entry ${rates.base}: the rate of the base currency must be 1`);
  }
}

function badCatalogue(name: FileName, fault: string, cause?: unknown): PermanentError {
  return new PermanentError("BAD_CATALOGUE", `The catalogue's ${name}.json ${fault}.`, {
    hint: "Correct the catalogue and load it again.",
    cause,
  });
}

function mapOf<T>(record: Readonly<Record<string, T>>): ReadonlyMap<string, T> {
  return new Map(Object.entries(record));
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) for (const item of value.values()) deepFreeze(item);
  for (const item of Object.values(value)) deepFreeze(item);
  return Object.freeze(value);
}
