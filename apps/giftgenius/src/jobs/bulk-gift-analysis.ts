/**
 * The job of GiftGenius: reads a file of employees and chooses gifts for each.
 *
 *   parse              the whole file once: is it a table of employees, how many are there, which rows are refused
 *   extract_interests  again: what the words in the interests column mean
 *   match              again, in batches: gifts for each person; each batch is one commit, so that a crash costs one batch
 *   assemble           reads the stored recommendations back, adds them up and checks that nobody is missing
 *
 * The file is read as a stream each time: memory does not grow with it.
 */
import type { JobContext, JobDefinition, Tidings } from "tidings";
import { defineJob } from "tidings";
import { z } from "zod";
import type { FeedReaders } from "../feed-readers.ts";
import { FEED_CHANGED } from "../feed-readers.ts";
import { readEmployees } from "../intake/read-employees.ts";
import type { Catalogue } from "../matching/catalogue.ts";
import { LOCALES, parseCatalogue } from "../matching/catalogue.ts";
import type { Matcher } from "../matching/matcher.ts";
import { createMatcher } from "../matching/matcher.ts";
import type { ProductFeed } from "../product-feed.ts";
import type { Uploads } from "../uploads.ts";
import type { Recommendation, ResultSummary, RowNote } from "./gift-result.ts";
import { CATALOGUE, giftsUri, RECOMMENDATIONS } from "./gift-result.ts";

export const bulkInput = z.strictObject({
  file: z.strictObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/), bytes: z.int().min(0) }),
  currency: z.string(),
  defaultBudgetCents: z.int().min(1).optional(),
  giftsPerEmployee: z.int().min(1).max(5),
  locale: z.enum(LOCALES),
});
export type BulkInput = z.infer<typeof bulkInput>;
export type BulkGiftAnalysis = JobDefinition<"bulk_gift_analysis", BulkInput>;

type StageKey = "parse" | "extract_interests" | "match" | "assemble";

/** How many people one commit holds: what a crash may cost. */
export const BATCH = 200;
/** How many refused rows and warnings a result lists; `counts` has the totals. */
const LISTED_NOTES = 1_000;
const READ_BACK = 500;

export interface BulkParts {
  readonly feed: ProductFeed;
  readonly uploads: Uploads;
  readonly readers: FeedReaders;
  /** Reads back what the job has stored. */
  readonly readItems: Tidings["items"];
  /** Hears of every single match, before it is stored. */
  readonly onMatch?: (jobId: string, record: number) => void;
}

interface Survey {
  readonly total: number;
  readonly accepted: number;
  readonly rejected: readonly RowNote[];
  readonly rejectedTotal: number;
}

/** What a batch leaves behind for the attempt that may follow. */
interface Checkpoint {
  /** The version of the catalogue that the stored recommendations were chosen from. */
  readonly catalogue: string;
  /** The last record whose recommendation is stored. */
  readonly record: number;
  readonly matched: number;
  readonly warnings: readonly RowNote[];
  readonly warningsTotal: number;
}

export function bulkGiftAnalysis(parts: BulkParts): BulkGiftAnalysis {
  return defineJob("bulk_gift_analysis", {
    input: bulkInput,
    idPrefix: "bulk_",
    counts: { total: 0, accepted: 0, rejected: 0, warnings: 0 },
    stages: {
      parse: { end: 10, label: "Reading the file and checking its format" },
      extract_interests: { end: 40, label: "Extracting interests and departments" },
      match: { end: 70, label: "Matching gifts by category" },
      assemble: { end: 100, label: "Putting the recommendations together" },
    },
    summary: ({ file, giftsPerEmployee }) =>
      `Choosing ${giftsPerEmployee} ${giftsPerEmployee === 1 ? "gift" : "gifts"} for each employee in a file of ${sizeOf(file.bytes)}`,
    resultResource: giftsUri,
    async run(input, context) {
      // The start noted it already, or is about to: no reason to fail when the store is full.
      await parts.uploads.keepFor(context.owner, context.jobId, input.file).catch(() => undefined);
      const catalogue = await catalogueOf(parts, context);
      // Before it is read as a table: the faults of a damaged file are not its owner's.
      await parts.uploads.verify(context.owner, input.file, context.signal);
      const matcher = createMatcher(catalogue, input);
      const survey = await surveyFile(parts, input, context);
      await learnInterests(parts, input, matcher, survey, context);
      const last = await matchAll(parts, input, catalogue, matcher, survey, context);
      const outcome = await assemble(parts, input, survey, last, context);
      await noteFeed(parts, catalogue, context);
      return outcome;
    },
  }) as BulkGiftAnalysis;
}

/**
 * The newest catalogue; in a later attempt the one that the stored recommendations were chosen from, so that one list
 * never mixes the gifts, prices and rates of two.
 */
async function catalogueOf(parts: BulkParts, context: JobContext<StageKey>): Promise<Catalogue> {
  const latest = await parts.feed.latest();
  const resumed = context.resumed as Checkpoint | undefined;
  if (resumed === undefined || resumed.catalogue === latest.version) return latest;
  const { items } = await parts.readItems(context.owner, context.jobId, CATALOGUE, { offset: 0, limit: 100 });
  // None is kept where the first batch was the last: then nobody is left to choose for.
  return items.length === 0 ? latest : parseCatalogue(items as readonly string[]);
}

/** From now on a change of the feed is told to the list's owner; one that came while it was made is told here. */
async function noteFeed(
  { feed, readers }: BulkParts,
  { version }: Catalogue,
  { owner, emit }: JobContext<StageKey>,
): Promise<void> {
  // A note that is lost costs a hint, not the list.
  await readers.note(owner, version).catch(() => undefined);
  if ((await feed.latest()).version !== version) await emit(FEED_CHANGED);
}

async function employeesOf(parts: BulkParts, input: BulkInput, { owner, signal }: JobContext<StageKey>) {
  const source = await parts.uploads.open(owner, input.file);
  const { currency, defaultBudgetCents } = input;
  return readEmployees(source, {
    currency,
    signal,
    ...(defaultBudgetCents === undefined ? {} : { defaultBudgetCents }),
  });
}

async function surveyFile(
  parts: BulkParts,
  input: BulkInput,
  context: JobContext<StageKey>,
): Promise<Survey> {
  let total = 0;
  let rejectedTotal = 0;
  const rejected: RowNote[] = [];
  for await (const row of await employeesOf(parts, input, context)) {
    total += 1;
    if (row.outcome === "rejected") {
      rejectedTotal += 1;
      if (rejected.length < LISTED_NOTES) {
        rejected.push({ record: row.record, line: row.line, code: row.code, message: row.message });
      }
    }
    if (total % 100 === 0) await context.progress("parse", fractionOf(row.bytesRead, input.file.bytes + 1));
  }
  const accepted = total - rejectedTotal;
  context.count({ total, accepted, rejected: rejectedTotal, warnings: 0 });
  await context.progress("parse", 1);
  return { total, accepted, rejected, rejectedTotal };
}

async function learnInterests(
  parts: BulkParts,
  input: BulkInput,
  matcher: Matcher,
  survey: Survey,
  context: JobContext<StageKey>,
): Promise<void> {
  for await (const row of await employeesOf(parts, input, context)) {
    if (row.outcome === "accepted") matcher.understand(row.employee);
    if (row.record % 100 === 0)
      await context.progress("extract_interests", fractionOf(row.record, survey.total + 1));
  }
  await context.progress("extract_interests", 1);
}

async function matchAll(
  parts: BulkParts,
  input: BulkInput,
  catalogue: Catalogue,
  matcher: Matcher,
  survey: Survey,
  context: JobContext<StageKey>,
): Promise<Checkpoint> {
  let state = (context.resumed as Checkpoint | undefined) ?? {
    catalogue: catalogue.version,
    record: 0,
    matched: 0,
    warnings: [],
    warningsTotal: 0,
  };
  let batch: Recommendation[] = [];
  let notes: RowNote[] = [];

  const store = async (record: number): Promise<void> => {
    const stored = batch;
    const keepsCatalogue = state.matched === 0 && stored.length === BATCH;
    state = {
      catalogue: catalogue.version,
      record,
      matched: state.matched + stored.length,
      warnings: [...state.warnings, ...notes].slice(0, LISTED_NOTES),
      warningsTotal: state.warningsTotal + notes.length,
    };
    batch = [];
    notes = [];
    context.count({ warnings: state.warningsTotal });
    await context.checkpoint(state, async (job) => {
      if (keepsCatalogue) await job.append(CATALOGUE, catalogue.texts);
      await job.append(RECOMMENDATIONS, stored);
    });
    await context.progress("match", fractionOf(state.matched, survey.accepted));
  };

  for await (const row of await employeesOf(parts, input, context)) {
    if (row.record <= state.record || row.outcome === "rejected") continue;
    parts.onMatch?.(context.jobId, row.record);
    const { gifts, warnings } = matcher.match(row.employee);
    const { employeeId, email, fullName, department, budgetCents } = row.employee;
    batch.push({ employeeId, email, fullName, department, budgetCents, gifts });
    for (const { code, message } of [...row.warnings, ...warnings]) {
      notes.push({ record: row.record, line: row.line, code, message });
    }
    if (batch.length === BATCH) await store(row.record);
  }
  if (batch.length > 0) await store(survey.total);
  await context.progress("match", 1);
  return state;
}

async function assemble(
  parts: BulkParts,
  input: BulkInput,
  survey: Survey,
  last: Checkpoint,
  context: JobContext<StageKey>,
): Promise<{ summary: string; result: ResultSummary }> {
  let employees = 0;
  let gifts = 0;
  let firstChoiceCents = 0;
  while (employees < survey.accepted) {
    context.signal.throwIfAborted();
    const { items } = await parts.readItems(context.owner, context.jobId, RECOMMENDATIONS, {
      offset: employees,
      limit: READ_BACK,
    });
    if (items.length === 0) break;
    for (const recommendation of items as readonly Recommendation[]) {
      employees += 1;
      gifts += recommendation.gifts.length;
      firstChoiceCents += recommendation.gifts[0]?.priceCents ?? 0;
    }
    if (employees < survey.accepted)
      await context.progress("assemble", fractionOf(employees, survey.accepted + 1));
  }
  if (employees !== survey.accepted) {
    throw new Error(`${survey.accepted} people were accepted, but ${employees} recommendations are stored.`);
  }
  const counts = {
    total: survey.total,
    accepted: survey.accepted,
    rejected: survey.rejectedTotal,
    warnings: last.warningsTotal,
  };
  context.count(counts);
  await context.progress("assemble", 1);
  return {
    summary: `${employees} employees, ${gifts} gifts`,
    result: {
      currency: input.currency,
      counts,
      totals: { employees, gifts, firstChoiceCents },
      warnings: last.warnings,
      rejected: survey.rejected,
    },
  };
}

function fractionOf(done: number, all: number): number {
  return all <= 0 ? 1 : Math.min(1, done / all);
}

const KILO = 1_000;

/** A size for people: bytes, or the largest unit that leaves at least one. */
function sizeOf(bytes: number): string {
  if (bytes < KILO) return `${bytes} bytes`;
  return bytes < KILO ** 2 ? `${Math.round(bytes / KILO)} kB` : `${(bytes / KILO ** 2).toFixed(1)} MB`;
}
