/** Failures of servers and connections, as the one error class. */
import { TidingsError } from "../../model/error.ts";
import { isRecord } from "../../model/schema.ts";

/** Reads `{ code, message, hint?, retryable?, data? }`; undefined when it is nothing of the kind. */
export function readError(info: unknown, cause?: unknown): TidingsError | undefined {
  if (!isRecord(info) || typeof info.code !== "string" || info.code === "") return undefined;
  return new TidingsError(info.code, typeof info.message === "string" ? info.message : info.code, {
    ...(typeof info.hint === "string" ? { hint: info.hint } : {}),
    ...(typeof info.retryable === "boolean" ? { retryable: info.retryable } : {}),
    ...(isRecord(info.data) ? { data: info.data } : {}),
    cause,
  });
}

/** What a library threw, as a TidingsError: a JSON-RPC error with `data.code` keeps its code, the rest may be retried. */
export function toFailure(error: unknown, doing: string): TidingsError {
  if (error instanceof TidingsError) return error;
  if (isRecord(error) && isRecord(error.data)) {
    const typed = readError({ message: error.message, data: error.data, ...error.data }, error);
    if (typed !== undefined) return typed;
  }
  const reason = error instanceof Error ? error.message : String(error);
  return unreachable(`${doing} failed: ${reason}`, error);
}

/** The server could not be reached, or did not answer as it should; the same may work later. */
export function unreachable(message: string, cause?: unknown): TidingsError {
  return new TidingsError("UNREACHABLE", message, { retryable: true, cause });
}
