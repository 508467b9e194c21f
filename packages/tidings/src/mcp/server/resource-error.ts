/** Failures of `resources/read` and `resources/subscribe`. */
import { ProtocolError, ResourceNotFoundError } from "@modelcontextprotocol/server";
import { toRpcError, toTidingsError } from "../error.ts";

/**
 * What to throw from a resource's callback: an unknown job, a foreign and an expired one are alike the SDK's own
 * unknown resource; every other error of ours is a JSON-RPC error with `data.code`; the rest is INTERNAL.
 */
export function toResourceError(error: unknown, uri: string): ProtocolError {
  if (error instanceof ProtocolError) return error;
  if (toTidingsError(error).code === "JOB_NOT_FOUND") return new ResourceNotFoundError(uri);
  const { code, message, data } = toRpcError(error);
  return new ProtocolError(code, message, data);
}
