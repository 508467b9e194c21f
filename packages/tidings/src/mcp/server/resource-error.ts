/** Failures of `resources/read` and `resources/subscribe`. */
import { ProtocolError, ResourceNotFoundError } from "@modelcontextprotocol/server";
import { printError } from "../../runtime/print-error.ts";
import { isHidden, toRpcError, toTidingsError } from "../error.ts";

/**
 * What to throw from a resource's callback: an unknown job, a foreign and an expired one are alike the SDK's own
 * unknown resource; the code always stands in `data.code`; what is not ours is INTERNAL. That, and a failure of the store,
 * is given to `onError`, for the client is not told the cause.
 *
 * @param onError - Default: one JSON line on stderr.
 */
export function toResourceError(
  error: unknown,
  uri: string,
  onError: (error: unknown, during: string) => void = printError,
): ProtocolError {
  if (error instanceof ProtocolError) return error;
  if (isHidden(error)) onError(error, "answering for a resource");
  const { code, message, data } = toRpcError(error);
  if (toTidingsError(error).code === "JOB_NOT_FOUND") {
    const unknown = new ResourceNotFoundError(uri);
    return new ProtocolError(unknown.code, unknown.message, { ...(unknown.data as object), ...data });
  }
  return new ProtocolError(code, message, data);
}
