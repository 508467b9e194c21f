/** Turns whatever a handler threw into what people may read: a code, a sentence, no stack. Never throws itself. */
import type { ErrorInfo } from "../model/error.ts";
import { TidingsError } from "../model/error.ts";

const LONGEST_TEXT = 2_000;

export function describeFailure(thrown: unknown): ErrorInfo {
  try {
    if (thrown instanceof TidingsError) {
      const info = thrown.toInfo();
      if (info.code.startsWith("STORE_")) {
        // The store's own sentence names a path of this machine, and a failure is read by whoever owns the job.
        return {
          code: info.code,
          message: "The store could not be read or written.",
          retryable: info.retryable,
        };
      }
      return {
        ...info,
        code: readable(info.code) || "HANDLER_FAILED",
        message: readable(info.message),
        ...(info.hint === undefined ? {} : { hint: readable(info.hint) }),
      };
    }
    const message =
      thrown instanceof Error
        ? readable(thrown.message) || readable(thrown.name) || "The handler threw an error without a message."
        : `The handler threw ${readable(printed(thrown))}.`;
    return { code: "HANDLER_FAILED", message, retryable: true };
  } catch {
    return {
      code: "HANDLER_FAILED",
      message: "The handler threw something that cannot be read.",
      retryable: true,
    };
  }
}

function printed(thrown: unknown): string {
  return typeof thrown === "object" && thrown !== null ? "an object that is no error" : String(thrown);
}

/** One line without control characters, of bounded length. */
function readable(text: unknown): string {
  const line = String(text)
    // Far more than is kept: a message of a hundred megabytes is not searched to its end.
    .slice(0, 4 * LONGEST_TEXT)
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ")
    .trim();
  return line.length > LONGEST_TEXT ? `${line.slice(0, LONGEST_TEXT - 1)}…` : line;
}
