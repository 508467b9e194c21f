/**
 * An employee file, read as a stream: one record in, one verdict out.
 *
 *   bytes → openText (encoding) → csv-parse (records) → readHeader, then the judge → IntakeRecord
 *
 * What concerns the whole file ends the reading with a PermanentError; what concerns one row is that row's verdict.
 * Memory does not grow with the rows, except for at most 32 bytes for each person met.
 */
import { pipeline, Readable } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { PermanentError } from "tidings";
import type { Delimiter } from "./header.ts";
import { declaredDelimiter, detectDelimiter, MAX_COLUMNS, readHeader } from "./header.ts";
import type { JudgeOptions, Verdict } from "./judge-row.ts";
import { createJudge, unknownEncoding } from "./judge-row.ts";
import { openText } from "./open-text.ts";

export type { Employee, RowNote } from "./judge-row.ts";

/** One data record of the file with its verdict. */
export type IntakeRecord = Verdict & {
  /** Counted from 1, without the header and without blank and delimiter-only lines. */
  readonly record: number;
  /** The physical line on which the record starts, counted from 1. */
  readonly line: number;
  /** Bytes of the source up to the end of this record: exact for UTF-8, to 64 KiB for UTF-16. Never shrinks. */
  readonly bytesRead: number;
};

export interface ReadOptions extends JudgeOptions {
  /** Ends the reading with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Bytes in one record; a longer one is a quote that was never closed, or an attack, and ends the reading. */
export const MAX_RECORD = 4 * 1024 * 1024;

/**
 * Reads the employees of a CSV file.
 *
 * UTF-8 with or without a mark and UTF-16 with a mark; delimiter `,`, `;` or tab, found out from the header;
 * line ends LF, CRLF, CR or mixed; quoted cells may hold line breaks. A quote inside an unquoted cell is text.
 * The source is closed when the reading ends, however it ends.
 *
 * @throws PermanentError `EMPTY_FILE` (nothing but blanks), `NO_EMPLOYEES` (a header and nothing behind it),
 *   `NO_EMAIL_COLUMN`, `NO_BUDGET_COLUMN` (without a default budget), `DUPLICATE_COLUMN`, `TOO_MANY_COLUMNS`,
 *   `UNKNOWN_ENCODING`, `NOT_A_TEXT_FILE`, `UNCLOSED_QUOTE` or `RECORD_TOO_LONG`. The last four may come after
 *   some of the records before the fault were given.
 */
export async function* readEmployees(
  source: AsyncIterable<Uint8Array>,
  options: ReadOptions,
): AsyncGenerator<IntakeRecord, void, undefined> {
  options.signal?.throwIfAborted();
  const bytes = source[Symbol.asyncIterator]();
  try {
    const text = await openText(bytes);
    const declared = declaredDelimiter(text.sample);
    const delimiter = declared ?? detectDelimiter(text.sample);
    let judge: ReturnType<typeof createJudge> | undefined;
    let record = 0;
    for await (const row of rowsOf(text.pieces, delimiter, declared !== undefined)) {
      options.signal?.throwIfAborted();
      if (judge === undefined) {
        if (row.fields.some((field) => field.includes("\uFFFD"))) throw unknownEncoding(row.line);
        const header = readHeader(row.fields);
        refuseMissingBudgets(header.positions.budget, options.defaultBudgetCents);
        const isProven = text.isDeclared || row.fields.some((field) => /[^\0-\x7F]/.test(field));
        judge = createJudge(header, delimiter, isProven, options);
        continue;
      }
      record += 1;
      yield {
        record,
        line: row.line,
        bytesRead: text.bytesBefore(row.end),
        ...judge(row.fields, row.line),
      };
    }
    if (judge === undefined) {
      throw new PermanentError("EMPTY_FILE", "The file is empty.", {
        hint: "Send a file with a header line and one line for each employee.",
      });
    }
    if (record === 0) {
      throw new PermanentError("NO_EMPLOYEES", "The file has a header and no employees.", {
        hint: "Add one line for each employee below the header.",
      });
    }
  } finally {
    await bytes.return?.();
  }
}

interface Row {
  readonly fields: string[];
  /** The physical line on which the row starts. */
  readonly line: number;
  /** Offset of the row's end in the text's UTF-8 bytes. */
  readonly end: number;
}

/** Rows that are not blank, the header first. */
async function* rowsOf(
  pieces: AsyncIterable<Buffer>,
  delimiter: Delimiter,
  skipsFirstLine: boolean,
): AsyncGenerator<Row, void, undefined> {
  let nextLine = 1;
  const parser = parse({
    bom: false,
    delimiter,
    record_delimiter: ["\r\n", "\n", "\r"],
    relax_quotes: true,
    relax_column_count: true,
    // Behind the column limit a row is one long field, so that a line of delimiters cannot fill the memory.
    ignore_last_delimiters: MAX_COLUMNS + 2,
    max_record_size: MAX_RECORD,
    // Lines are counted here, while parsing, because a fault of the parser discards the rows that wait to be read;
    // and by us, because the parser's own count takes CRLF inside quotes for two lines.
    on_record: (fields, info) => {
      const row: Row = { fields, line: nextLine, end: info.bytes };
      nextLine += 1 + countBreaks(fields);
      // The parser passes on whatever it gets; its types only know rows of texts.
      return row as never;
    },
  });
  // Errors of the pieces and of the parser both reach the loop below: the pipeline destroys the parser with them.
  pipeline(Readable.from(pieces), parser, () => {});
  try {
    for await (const row of parser as AsyncIterable<Row>) {
      const isDeclaration = row.line === 1 && skipsFirstLine;
      if (!isDeclaration && row.fields.some((field) => field.trim() !== "")) yield row;
    }
  } catch (error) {
    throw error instanceof CsvError ? asPermanent(error, nextLine) : error;
  }
}

function countBreaks(fields: readonly string[]): number {
  let breaks = 0;
  for (const field of fields) {
    if (field.includes("\n") || field.includes("\r")) breaks += field.match(/\r\n|\n|\r/g)?.length ?? 0;
  }
  return breaks;
}

function asPermanent(error: CsvError, line: number): unknown {
  const where = `the record that starts on line ${line}`;
  const column = typeof error.column === "number" ? ` in column ${error.column + 1}` : "";
  if (error.code === "CSV_QUOTE_NOT_CLOSED") {
    return new PermanentError(
      "UNCLOSED_QUOTE",
      `A quote is opened${column} of ${where} and never closed, so nothing behind it can be read.`,
      { hint: `Close the quote on line ${line}, or remove it.` },
    );
  }
  if (error.code === "CSV_MAX_RECORD_SIZE") {
    return new PermanentError(
      "RECORD_TOO_LONG",
      `${where.replace("the", "The")} is longer than ${MAX_RECORD / 1024 / 1024} MiB, the limit of one record.`,
      { hint: `Shorten the cell${column} on line ${line}, or close the quote that was opened in it.` },
    );
  }
  return error;
}

function refuseMissingBudgets(position: number | undefined, defaultBudgetCents: number | undefined): void {
  if (position !== undefined || defaultBudgetCents !== undefined) return;
  throw new PermanentError(
    "NO_BUDGET_COLUMN",
    "The file has no column named budget, and no default budget was given.",
    { hint: "Add a column named budget, or start again with a default budget." },
  );
}
