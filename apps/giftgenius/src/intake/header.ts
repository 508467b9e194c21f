/** The first line of a file: its delimiter, and which of our columns stands where. */
import { parse } from "csv-parse/sync";
import { PermanentError } from "tidings";

/** The columns that GiftGenius reads, by their names in the header. */
export const COLUMNS = ["employee_id", "full_name", "email", "department", "interests", "budget"] as const;

export type Column = (typeof COLUMNS)[number];
export type Delimiter = "," | ";" | "\t";

/** Where each column stands in a row, counted from 0. */
export interface Header {
  readonly positions: Readonly<Partial<Record<Column, number>>>;
  /** Fields that every row must have: all up to the last column with a name. */
  readonly width: number;
}

export const MAX_COLUMNS = 200;

const DELIMITERS: readonly Delimiter[] = [",", ";", "\t"];
const DECLARED = /^sep=([,;\t])\r?\n/i;

/** The delimiter that a spreadsheet wrote into a first line of its own (`sep=;`), if there is such a line. */
export function declaredDelimiter(sample: string): Delimiter | undefined {
  return DECLARED.exec(sample)?.[1] as Delimiter | undefined;
}

/**
 * The delimiter by which the header gives the most columns that we know, then the most columns at all.
 * Only the header counts: amounts in rows hold commas.
 */
export function detectDelimiter(sample: string): Delimiter {
  // A blank line of one delimiter would be a name to the others.
  const text = sample.replace(/^[\s,;]+/, "");
  let best: Delimiter = ",";
  let bestScore = -1;
  for (const delimiter of DELIMITERS) {
    const names = firstRecord(text, delimiter);
    const score = names.filter((name) => columnOf(name) !== undefined).length * 1000 + names.length;
    if (score > bestScore) {
      best = delimiter;
      bestScore = score;
    }
  }
  return best;
}

function firstRecord(sample: string, delimiter: Delimiter): string[] {
  try {
    const records = parse(sample, {
      delimiter,
      record_delimiter: ["\r\n", "\n", "\r"],
      relax_quotes: true,
      relax_column_count: true,
      skip_records_with_empty_values: true,
      ignore_last_delimiters: MAX_COLUMNS + 1,
      to: 1,
    });
    return records[0] ?? [];
  } catch {
    // A quote that is open to the end of the sample: this is not the delimiter, or the reader will say so.
    return [];
  }
}

/**
 * Reads the header row. Names are compared without case and outer spaces; a space or hyphen inside counts as `_`.
 * Unknown columns are ignored.
 *
 * @throws PermanentError `NO_EMAIL_COLUMN`, `DUPLICATE_COLUMN` (with both positions) or `TOO_MANY_COLUMNS`. No
 *   message repeats what stands in the file, because a file without a header begins with a person.
 */
export function readHeader(names: readonly string[]): Header {
  if (names.length > MAX_COLUMNS) {
    throw new PermanentError(
      "TOO_MANY_COLUMNS",
      `The header has more than ${MAX_COLUMNS} columns, which is the limit.`,
      { hint: `Keep the columns ${COLUMNS.join(", ")} and remove the others.` },
    );
  }
  const positions: Partial<Record<Column, number>> = {};
  let width = 0;
  for (const [position, name] of names.entries()) {
    if (name.trim() !== "") width = position + 1;
    const column = columnOf(name);
    if (column === undefined) continue;
    const earlier = positions[column];
    if (earlier !== undefined) {
      throw new PermanentError(
        "DUPLICATE_COLUMN",
        `Columns ${earlier + 1} and ${position + 1} are both named ${column}.`,
        { hint: "Rename or remove one of the two." },
      );
    }
    positions[column] = position;
  }
  if (positions.email === undefined) {
    throw new PermanentError(
      "NO_EMAIL_COLUMN",
      `None of the ${width} columns is named email, and the address is what identifies a person.`,
      {
        hint: names.some((name) => name.includes("@"))
          ? `Add a first line with the names of the columns: ${COLUMNS.join(", ")}.`
          : "Add a column named email, or rename the column that holds the addresses to email.",
      },
    );
  }
  return { positions, width };
}

function columnOf(name: string): Column | undefined {
  if (name.length > 64) return undefined;
  const plain = name
    .trim()
    .toLowerCase()
    .replace(/[\s-]+/g, "_");
  return COLUMNS.find((column) => column === plain);
}
