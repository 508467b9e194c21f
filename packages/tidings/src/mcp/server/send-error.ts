/** Failures of plain HTTP addresses, ours and the application's own beside ours. */
import type { ServerResponse } from "node:http";
import { printError } from "../../runtime/print-error.ts";
import { isHidden } from "../error.ts";
import { sendFailure } from "./http-message.ts";

/**
 * Answers a plain HTTP request with a failure, as the addresses of `createHttpHandler` do: the status of the error's code
 * and `{ error: { code, message, hint?, retryable, data? } }`, with `Retry-After` where waiting helps. What is no TidingsError becomes INTERNAL under 500, and is given
 * to `onError`, as a failure of the store is. An answer that has begun already is cut. Never throws.
 *
 * @param onError - Default: one JSON line on stderr.
 */
export function sendError(
  res: ServerResponse,
  error: unknown,
  onError: (error: unknown, during: string) => void = printError,
): void {
  if (isHidden(error)) onError(error, `${res.req?.method} ${res.req?.url?.split("?", 1)[0]}`);
  sendFailure(res, error);
}
