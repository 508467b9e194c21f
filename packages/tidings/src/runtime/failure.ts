/** Turns whatever a handler threw into what people may read: a code, a sentence, no stack. Never throws itself. */
import { types } from "node:util";
import type { ErrorInfo } from "../model/error.ts";
import { TidingsError } from "../model/error.ts";
import { RetryAfter } from "./error.ts";

const LONGEST_TEXT = 2_000;
const LONGEST_CODE = 100;
/** How many errors of several in one are named. */
const NAMED_ERRORS = 3;
const NO_MESSAGE = "The handler threw an error without a message.";

/** The failure as it stands in the story: one line each, at most 2 000 characters, a code of at most 100. */
export function describeFailure(thrown: unknown): ErrorInfo {
  try {
    if (thrown instanceof TidingsError) return describeOwn(thrown.toInfo());
    return { code: "HANDLER_FAILED", message: sentenceOf(thrown), retryable: true };
  } catch {
    return {
      code: "HANDLER_FAILED",
      message: "The handler threw something that cannot be read.",
      retryable: true,
    };
  }
}

/** How long the next attempt shall wait, in milliseconds, when a handler threw a `RetryAfter`. */
export function askedDelayOf(thrown: unknown): number | undefined {
  try {
    if (!(thrown instanceof RetryAfter)) return undefined;
    const { delayMs } = thrown;
    return Number.isFinite(delayMs) ? Math.max(0, delayMs) : 0;
  } catch {
    return undefined;
  }
}

function describeOwn({ code: givenCode, message, hint: givenHint, retryable }: ErrorInfo): ErrorInfo {
  const code = readable(givenCode, LONGEST_CODE) || "HANDLER_FAILED";
  if (code.startsWith("STORE_")) {
    // The store's own sentence names a path of this machine, and a failure is read by whoever owns the job.
    return { code, message: "The store could not be read or written.", retryable: retryable === true };
  }
  const hint = givenHint === undefined ? "" : readable(givenHint);
  return {
    code,
    message: readable(message) || NO_MESSAGE,
    ...(hint === "" ? {} : { hint }),
    retryable: retryable === true,
  };
}

/** Errors of another realm are no instances of ours. */
function isError(thrown: unknown): thrown is Error {
  return thrown instanceof Error || types.isNativeError(thrown);
}

function sentenceOf(thrown: unknown): string {
  const own = ownSentenceOf(thrown);
  if (!isError(thrown) || !("errors" in thrown)) return own;
  const parts: unknown = thrown.errors;
  if (!Array.isArray(parts) || parts.length === 0) return own;
  const more = parts.length > NAMED_ERRORS ? ` and ${parts.length - NAMED_ERRORS} more` : "";
  return readable(`${own} (${parts.slice(0, NAMED_ERRORS).map(ownSentenceOf).join("; ")}${more})`);
}

function ownSentenceOf(thrown: unknown): string {
  if (thrown instanceof TidingsError) return describeOwn(thrown.toInfo()).message;
  if (!isError(thrown)) return `The handler threw ${named(thrown)}.`;
  return readable(thrown.message) || readable(thrown.name) || NO_MESSAGE;
}

/** What is no error, in words: never the text of a function, nor what an object says of itself. */
function named(thrown: unknown): string {
  if (typeof thrown === "function") return "a function";
  if (typeof thrown === "object" && thrown !== null) return "an object that is no error";
  return readable(thrown) || "an empty text";
}

/** One line without control characters, of bounded length. */
function readable(text: unknown, longest = LONGEST_TEXT): string {
  const line = String(text)
    // Far more than is kept: a message of a hundred megabytes is not searched to its end.
    .slice(0, 4 * LONGEST_TEXT)
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ")
    .trim();
  return (line.length > longest ? `${line.slice(0, longest - 1)}…` : line).toWellFormed();
}
