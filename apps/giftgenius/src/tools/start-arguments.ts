/** What `start_bulk_gift_analysis` takes, and how it becomes the job's input. */
import { TidingsError } from "tidings";
import { z } from "zod";
import type { BulkInput } from "../jobs/bulk-gift-analysis.ts";
import { LOCALES } from "../matching/catalogue.ts";
import type { ProductFeed } from "../product-feed.ts";
import type { Uploads } from "../uploads.ts";

/** An inline file above this belongs to POST /uploads. */
export const MAX_INLINE_CSV_BYTES = 1024 * 1024;

export const startArguments = z.strictObject({
  csv: z
    .string()
    .optional()
    .describe(`The file itself, up to ${MAX_INLINE_CSV_BYTES} bytes; larger ones go to POST /uploads`),
  uploadId: z.string().min(1).optional().describe("What POST /uploads answered; give this or csv"),
  defaultBudget: z
    .number()
    .positive()
    .max(1_000_000)
    .optional()
    .describe("Budget per person in units of the currency (49.90), for rows without one"),
  currency: z
    .string()
    .regex(/^[A-Za-z]{3}$/, "must be a currency code such as USD")
    .default("USD")
    .describe("Currency of the budgets and of the prices in the result"),
  giftsPerEmployee: z.int().min(1).max(5).default(3).describe("How many alternatives each person gets"),
  locale: z.enum(LOCALES).default("en").describe("Language of titles and reasons"),
});
export type StartArguments = z.output<typeof startArguments>;

/**
 * Brings the file in and checks what a schema cannot say.
 *
 * @throws TidingsError BAD_INPUT, PAYLOAD_TOO_LARGE, UPLOAD_NOT_FOUND; OWNER_FULL and SERVER_FULL as for uploads
 */
export async function toBulkInput(
  args: StartArguments,
  parts: {
    readonly feed: ProductFeed;
    readonly uploads: Uploads;
    readonly owner: string;
  },
): Promise<BulkInput> {
  const currency = args.currency.toUpperCase();
  const known = [...(await parts.feed.latest()).rates.rates.keys()];
  if (!known.includes(currency)) {
    throw new TidingsError("BAD_INPUT", `The currency ${currency} is not known here.`, {
      hint: `Use one of ${known.join(", ")}.`,
    });
  }
  const defaultBudgetCents =
    args.defaultBudget === undefined ? undefined : Math.round(args.defaultBudget * 100);
  if (defaultBudgetCents === 0) throw new TidingsError("BAD_INPUT", "defaultBudget is less than one cent.");
  const { giftsPerEmployee, locale } = args;
  const file = await fileOf(args, parts);
  return {
    file,
    currency,
    giftsPerEmployee,
    locale,
    ...(defaultBudgetCents === undefined ? {} : { defaultBudgetCents }),
  };
}

async function fileOf(
  { csv, uploadId }: StartArguments,
  { uploads, owner }: { readonly uploads: Uploads; readonly owner: string },
): Promise<BulkInput["file"]> {
  if ((csv === undefined) === (uploadId === undefined)) {
    throw new TidingsError(
      "BAD_INPUT",
      `Give ${csv === undefined ? "csv or uploadId" : "either csv or uploadId, not both"}.`,
      {
        hint: "Short files fit into csv; others are uploaded first by POST /uploads.",
      },
    );
  }
  if (uploadId !== undefined) {
    const { sha256, bytes } = await uploads.find(owner, uploadId);
    return { sha256, bytes };
  }
  const content = Buffer.from(csv ?? "", "utf8");
  if (content.length > MAX_INLINE_CSV_BYTES) {
    throw new TidingsError(
      "PAYLOAD_TOO_LARGE",
      `The inline csv has ${content.length} bytes; at most ${MAX_INLINE_CSV_BYTES} fit into a call.`,
      {
        hint: "Upload the file by POST /uploads and pass its uploadId.",
        data: { limit: MAX_INLINE_CSV_BYTES },
      },
    );
  }
  const { sha256, bytes } = await uploads.receive(owner, chunksOf(content), content.length);
  return { sha256, bytes };
}

async function* chunksOf(content: Uint8Array): AsyncGenerator<Uint8Array> {
  yield content;
}
