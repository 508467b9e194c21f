/** Failures of `resources/read` and `resources/subscribe`. */
import { ProtocolError, ResourceNotFoundError } from "@modelcontextprotocol/server";
import { toRpcError, toTidingsError } from "../error.ts";

/**
 * What to throw from a resource's callback: an unknown job, a foreign and an expired one are alike the SDK's own
 * unknown resource; the code always stands in `data.code`; what is not ours is INTERNAL.
 */
export function toResourceError(error: unknown, uri: string): ProtocolError {
  if (error instanceof ProtocolError) return error;
  const { code, message, data } = toRpcError(error);
  if (toTidingsError(error).code === "JOB_NOT_FOUND") {
    const unknown = new ResourceNotFoundError(uri);
    return new ProtocolError(unknown.code, unknown.message, { ...(unknown.data as object), ...data });
  }
  return new ProtocolError(code, message, data);
}
