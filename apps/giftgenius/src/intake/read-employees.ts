/**
 * An employee file, read as a stream: one record in, one verdict out.
 *
 *   bytes → openText (encoding) → csv-parse (records) → readHeader, then the judge → IntakeRecord
 *
 * What concerns the whole file ends the reading with a PermanentError; what concerns one row is that row's verdict.
 * Memory does not grow with the rows, except for at most 32 bytes for each person met.
 */
import { CsvError, parse } from "csv-parse";
import { PermanentError } from "tidings";
import type { Delimiter } from "./header.ts";
import { declaredDelimiter, detectDelimiter, MAX_COLUMNS, readHeader } from "./header.ts";
import type { JudgeOptions, Verdict } from "./judge-row.ts";
import { createJudge, unknownEncoding } from "./judge-row.ts";
import { openText } from "./open-text.ts";

export type { Employee, Remark } from "./judge-row.ts";

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
 *   `NOT_A_TEXT_FILE`, `UNKNOWN_ENCODING`, `UNCLOSED_QUOTE` or `RECORD_TOO_LONG`: the last three after all
 *   records before the fault were given.
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
    for await (const rows of rowsOf(text.pieces, delimiter, declared !== undefined)) {
      for (const row of rows) {
        options.signal?.throwIfAborted();
        if (judge === undefined) {
          judge = judgeBehind(row, delimiter, text.isDeclared, options);
          continue;
        }
        record += 1;
        const verdict = judge(row.fields, row.line);
        yield { record, line: row.line, bytesRead: text.bytesBefore(row.end), ...verdict };
      }
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

/** Reads the header and prepares the judge of the rows behind it. */
function judgeBehind(
  { fields, line }: Row,
  delimiter: Delimiter,
  isEncodingDeclared: boolean,
  options: ReadOptions,
): ReturnType<typeof createJudge> {
  if (fields.some((field) => field.includes("\uFFFD"))) throw unknownEncoding(line);
  const header = readHeader(fields);
  if (header.positions.budget === undefined && options.defaultBudgetCents === undefined) {
    throw new PermanentError(
      "NO_BUDGET_COLUMN",
      "The file has no column named budget, and no default budget was given.",
      { hint: "Add a column named budget, or start again with a default budget." },
    );
  }
  const isProven = isEncodingDeclared || fields.some((field) => /[^\0-\x7F]/.test(field));
  return createJudge(header, delimiter, isProven, options);
}

interface Row {
  readonly fields: string[];
  /** The physical line on which the row starts. */
  readonly line: number;
  /** Offset of the row's end in the text's UTF-8 bytes. */
  readonly end: number;
}

/** Rows that are not blank, the header first, in batches as they come out of the pieces. */
async function* rowsOf(
  pieces: AsyncIterable<Buffer>,
  delimiter: Delimiter,
  skipsFirstLine: boolean,
): AsyncGenerator<readonly Row[], void, undefined> {
  let nextLine = 1;
  let rows: Row[] = [];
  const parser = parse({
    bom: false,
    delimiter,
    record_delimiter: ["\r\n", "\n", "\r"],
    relax_quotes: true,
    relax_column_count: true,
    // Behind the column limit a row is one long field, so that a line of delimiters cannot fill the memory.
    ignore_last_delimiters: MAX_COLUMNS + 2,
    max_record_size: MAX_RECORD,
    // Rows are taken here and not read from the stream, because a fault discards what waits in a stream. Lines are
    // counted by us, because the parser's own count takes CRLF inside quotes for two lines.
    on_record: (fields, info) => {
      const line = nextLine;
      nextLine += 1 + countBreaks(fields);
      const isDeclaration = line === 1 && skipsFirstLine;
      if (!isDeclaration && fields.some((field) => field.trim() !== "")) {
        rows.push({ fields, line, end: info.bytes });
      }
      return null;
    },
  });
  const taken = (): Row[] => {
    const batch = rows;
    rows = [];
    return batch;
  };
  // Every fault is also given to the callback of the write that met it.
  parser.on("error", () => {});
  for await (const piece of pieces) {
    const fault = await new Promise<Error | null | undefined>((done) => parser.write(piece, done));
    yield taken();
    if (fault) throw asPermanent(fault, nextLine);
  }
  const fault = await new Promise<Error | null | undefined>((done) => parser.end(done));
  yield taken();
  if (fault) throw asPermanent(fault, nextLine);
}

function countBreaks(fields: readonly string[]): number {
  let breaks = 0;
  for (const field of fields) {
    if (field.includes("\n") || field.includes("\r")) breaks += field.match(/\r\n|\n|\r/g)?.length ?? 0;
  }
  return breaks;
}

function asPermanent(error: Error, line: number): Error {
  if (!(error instanceof CsvError)) return error;
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
