/**
 * What becomes of one row: an employee with remarks, or a refusal that says why.
 *
 *   fields ──▶ text sound? ──▶ as wide as the header? ──▶ email, not met before? ──▶ budget? ──▶ accepted
 *                 └────────────────────┴──────────────────────────┴────────────────────┴──▶ rejected
 */
import { PermanentError } from "tidings";
import { isEmail, normalizeEmail } from "./email.ts";
import type { Column, Delimiter, Header } from "./header.ts";
import { hasWholeUnits, parseMoneyCents } from "./money.ts";
import { createSeenPeople } from "./seen-people.ts";

/** A person for whom gifts are to be found. Texts are as written in the file, without outer spaces. */
export interface Employee {
  /** Text, never a number; empty when the file has none. */
  readonly employeeId: string;
  readonly fullName: string;
  readonly email: string;
  readonly department: string;
  /** In the order of the file, each once. */
  readonly interests: readonly string[];
  /** Hundredths of the run's currency. */
  readonly budgetCents: number;
}

/** Something that a person should know about a row. */
export interface Remark {
  readonly code: string;
  /** One sentence. */
  readonly message: string;
}

export type Verdict =
  | { readonly outcome: "accepted"; readonly employee: Employee; readonly warnings: readonly Remark[] }
  | ({ readonly outcome: "rejected" } & Remark);

export interface JudgeOptions {
  /** ISO code of the run's currency, in which budgets are counted. */
  readonly currency: string;
  /** The budget of people who have none in the file. */
  readonly defaultBudgetCents?: number;
}

/** Characters in one cell; a row with a longer one is rejected. */
export const MAX_CELL = 64 * 1024;
/** Interests of one person; the others are left out with a warning. */
export const MAX_INTERESTS = 50;

const INTEREST_SEPARATORS = /[|;,｜；，、]/;

/**
 * Creates the judge of one file's rows: it remembers who was accepted, and whether letters beyond ASCII were read.
 *
 * The judge throws PermanentError `UNKNOWN_ENCODING` when a row holds bytes that are not UTF-8 before any letter
 * beyond ASCII was read well: then the whole file is in another encoding, not one row damaged.
 */
export function createJudge(
  header: Header,
  delimiter: Delimiter,
  isEncodingDeclared: boolean,
  options: JudgeOptions,
): (fields: readonly string[], line: number) => Verdict {
  const people = createSeenPeople();
  // Without hundredths, three digits behind a separator can only be thousands.
  const isWholeUnits = hasWholeUnits(options.currency);
  let isEncodingProven = isEncodingDeclared;

  function cell(fields: readonly string[], column: Column): string {
    const position = header.positions[column];
    const text = position === undefined ? "" : trimSpaces(fields[position] ?? "");
    return text.includes("\uFEFF") ? text.replaceAll("\uFEFF", "") : text;
  }

  function faultOfText(fields: readonly string[], line: number): Remark | undefined {
    for (const [position, field] of fields.entries()) {
      if (field.length > MAX_CELL) {
        return note(
          "CELL_TOO_LONG",
          `The cell in column ${position + 1} has ${field.length} characters; the limit is ${MAX_CELL}.`,
        );
      }
      if (holdsRows(field, delimiter, header.width)) {
        return note(
          "BAD_QUOTES",
          `The cell in column ${position + 1} runs over several lines and holds whole rows, so a quote was opened and not closed; those rows were not read.`,
        );
      }
    }
    if (!isEncodingProven || fields.some((field) => field.includes("\uFFFD"))) {
      isEncodingProven ||= fields.some((field) => /[^\0-\x7F\uFFFD]/.test(field));
      const isDamaged = fields.some((field) => field.includes("\uFFFD"));
      if (isDamaged && !isEncodingProven) throw unknownEncoding(line);
      if (isDamaged && isUsed(fields, "\uFFFD")) {
        return note("BAD_ENCODING", "The row holds bytes that are not UTF-8, so its text is damaged.");
      }
    }
    if (isUsed(fields, "\0")) return note("BAD_TEXT", "The row holds a NUL character.");
    return undefined;
  }

  function isUsed(fields: readonly string[], character: string): boolean {
    return Object.values(header.positions).some((position) => fields[position]?.includes(character));
  }

  function budgetOf(text: string, warnings: Remark[]): number | Remark {
    const reading = parseMoneyCents(text);
    const { currency, defaultBudgetCents } = options;
    switch (reading.kind) {
      case "empty":
        return (
          defaultBudgetCents ?? note("NO_BUDGET", "The row has no budget, and the run has no default budget.")
        );
      case "not_positive":
        return note("BAD_BUDGET", `The budget ${quote(text)} is not more than zero.`);
      case "too_large":
        return note(
          "BAD_BUDGET",
          `The budget ${quote(text)} is more than ten million, so it is taken for a slip.`,
        );
      case "amount":
        if (reading.currencies === undefined || reading.currencies.includes(currency)) {
          if (reading.unclear && !isWholeUnits) {
            warnings.push(
              note(
                "BUDGET_UNCLEAR",
                `The budget ${quote(text)} was read as ${reading.cents / 100} with thousands.`,
              ),
            );
          }
          return reading.cents;
        }
        return orDefault(
          `The budget ${quote(text)} is in ${reading.currencies.join(" or ")}, but this run counts in ${currency}`,
          warnings,
        );
      case "unreadable":
        return orDefault(`The budget ${quote(text)} could not be read as an amount`, warnings);
    }
  }

  function orDefault(fault: string, warnings: Remark[]): number | Remark {
    if (options.defaultBudgetCents === undefined) return note("BAD_BUDGET", `${fault}.`);
    warnings.push(note("DEFAULT_BUDGET_USED", `${fault}; the default budget was used.`));
    return options.defaultBudgetCents;
  }

  return (fields, line) => {
    const fault = faultOfText(fields, line) ?? faultOfWidth(fields, header.width);
    if (fault !== undefined) return { outcome: "rejected", ...fault };

    const email = cell(fields, "email").trim();
    const person = normalizeEmail(email);
    if (person === "") return reject("NO_EMAIL", "The row has no e-mail address, so it names nobody.");
    if (!isEmail(person)) return reject("BAD_EMAIL", `${quote(email)} is not an e-mail address.`);
    if (people.has(person)) {
      return reject("DUPLICATE_PERSON", `${quote(email)} was in an earlier row; a person is counted once.`);
    }
    const warnings: Remark[] = [];
    const budget = budgetOf(cell(fields, "budget"), warnings);
    if (typeof budget !== "number") return { outcome: "rejected", ...budget };
    const interests = splitInterests(cell(fields, "interests"), warnings);
    people.add(person);
    return {
      outcome: "accepted",
      employee: {
        employeeId: cell(fields, "employee_id"),
        fullName: cell(fields, "full_name"),
        email,
        department: cell(fields, "department"),
        interests,
        budgetCents: budget,
      },
      warnings,
    };
  };
}

/** The refusal of a file whose bytes are not UTF-8. */
export function unknownEncoding(line: number): PermanentError {
  return new PermanentError(
    "UNKNOWN_ENCODING",
    `Line ${line} holds bytes that are not UTF-8, and nothing in the file says in which encoding it is.`,
    { hint: "Save the table as CSV (UTF-8) and send that file." },
  );
}

function splitInterests(text: string, warnings: Remark[]): string[] {
  const seen = new Set<string>();
  const interests: string[] = [];
  for (const part of text.split(INTEREST_SEPARATORS)) {
    const interest = part.trim();
    const key = interest.toLowerCase();
    if (interest === "" || seen.has(key)) continue;
    if (interests.length === MAX_INTERESTS) {
      warnings.push(
        note(
          "TOO_MANY_INTERESTS",
          `Only the first ${MAX_INTERESTS} interests were read, which is the limit.`,
        ),
      );
      break;
    }
    seen.add(key);
    interests.push(interest);
  }
  return interests;
}

function faultOfWidth(fields: readonly string[], width: number): Remark | undefined {
  let used = fields.length;
  while (used > width && fields[used - 1]?.trim() === "") used -= 1;
  if (used === width) return undefined;
  const found = used === 1 ? "1 field" : `${used} fields`;
  return note("WRONG_FIELD_COUNT", `The row has ${found} where the header has ${width}.`);
}

/**
 * A quote that was never closed makes one cell of the rest of its row, whole rows and the start of another; with as
 * many fields as the header has, the result would pass for a person. Such a cell holds line breaks, an address
 * and at least the delimiters of one row.
 */
function holdsRows(field: string, delimiter: Delimiter, width: number): boolean {
  return (
    width > 1 && /[\r\n]/.test(field) && field.includes("@") && field.split(delimiter, width).length === width
  );
}

function reject(code: string, message: string): Verdict {
  return { outcome: "rejected", code, message };
}

function note(code: string, message: string): Remark {
  return { code, message };
}

/** Without outer spaces of any kind; tabs and line breaks inside quotes are part of the text and stay. */
function trimSpaces(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text.charCodeAt(start))) start += 1;
  while (end > start && isSpace(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

function isSpace(code: number): boolean {
  return (
    code === 0x20 ||
    (code >= 0xa0 && (code === 0xa0 || code === 0xfeff || /\p{Zs}/u.test(String.fromCharCode(code))))
  );
}

/** A text from the file within a sentence: short, on one line, with controls made visible. */
function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}
