/** The one table from Tidings' error codes to JSON-RPC's, for places that answer with a JSON-RPC error. */
import type { ErrorCode, ErrorInfo } from "../model/error.ts";
import { isErrorCode, TidingsError } from "../model/error.ts";

/** JSON-RPC 2.0: the request itself is wrong. */
export const INVALID_PARAMS = -32602;
/** JSON-RPC 2.0: the server failed. */
export const INTERNAL_ERROR = -32603;

/** What a JSON-RPC client gets for each code. The code itself always stands in `data.code`. */
export const JSON_RPC_CODES: Readonly<Record<ErrorCode, number>> = {
  BAD_INPUT: INVALID_PARAMS,
  BAD_CURSOR: INVALID_PARAMS,
  BAD_EVENT: INVALID_PARAMS,
  IDEMPOTENCY_CONFLICT: INVALID_PARAMS,
  JOB_NOT_FOUND: INVALID_PARAMS,
  JOB_CANCELED: INVALID_PARAMS,
  JOB_NOT_ENDED: INVALID_PARAMS,
  JOB_TYPE_UNKNOWN: INVALID_PARAMS,
  UPLOAD_NOT_FOUND: INVALID_PARAMS,
  PAYLOAD_TOO_LARGE: INVALID_PARAMS,
  TOO_MANY_REQUESTS: INTERNAL_ERROR,
  QUEUE_FULL: INTERNAL_ERROR,
  OWNER_FULL: INTERNAL_ERROR,
  TOO_MANY_EVENTS: INTERNAL_ERROR,
  FORBIDDEN: INVALID_PARAMS,
  UNAUTHENTICATED: INVALID_PARAMS,
  INSUFFICIENT_SCOPE: INVALID_PARAMS,
  AUTH_UNAVAILABLE: INTERNAL_ERROR,
  METHOD_NOT_ALLOWED: INVALID_PARAMS,
  REQUEST_TIMEOUT: INTERNAL_ERROR,
  UNREACHABLE: INTERNAL_ERROR,
  JOB_TIMEOUT: INTERNAL_ERROR,
  WORKER_LOST: INTERNAL_ERROR,
  WORKER_STOPPED: INTERNAL_ERROR,
  HANDLER_CRASHED: INTERNAL_ERROR,
  HANDLER_FAILED: INTERNAL_ERROR,
  LOOP_BLOCKED: INTERNAL_ERROR,
  LEASE_LOST: INTERNAL_ERROR,
  STORE_BUSY: INTERNAL_ERROR,
  STORE_FULL: INTERNAL_ERROR,
  STORE_FAILED: INTERNAL_ERROR,
  STORE_TOO_NEW: INTERNAL_ERROR,
  STORE_CLOSED: INTERNAL_ERROR,
  BAD_DEFINITION: INTERNAL_ERROR,
  INTERNAL: INTERNAL_ERROR,
};

/** The `error` member of a JSON-RPC answer. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data: Omit<ErrorInfo, "message">;
}

/** The store's own sentences name its place on this machine; these travel instead. */
const STORE_SENTENCES: Readonly<Record<string, string>> = {
  STORE_BUSY: "The server's store was held by another process for too long.",
  STORE_FULL: "The server's store has no room left.",
  STORE_FAILED: "The server's store could not be read or written.",
  STORE_TOO_NEW: "The server's store was written by a newer version.",
  STORE_CLOSED: "The server is stopping and takes no more requests.",
};

/**
 * Makes any thrown value fit to leave the server, so that no stack, path or secret travels: failures of the store under
 * a fixed sentence, everything else that is not ours as INTERNAL. What was thrown is then the `cause`; see `isHidden`.
 */
export function toTidingsError(error: unknown): TidingsError {
  if (error instanceof TidingsError) {
    const sentence = STORE_SENTENCES[error.code];
    if (sentence === undefined || error.message === sentence) return error;
    return new TidingsError(error.code, sentence, {
      hint: "Try again later; the operator can find the cause.",
      retryable: error.retryable,
      cause: error,
    });
  }
  return new TidingsError("INTERNAL", "The server failed while it worked on this request.", {
    hint: "Try again later; the operator finds the cause in the server's log.",
    cause: error,
  });
}

/** Whether the cause of a failure stays behind, so that whoever answers must tell the operator. A stop is no fault. */
export function isHidden(error: unknown): boolean {
  const known = toTidingsError(error);
  return known !== error && known.code !== "STORE_CLOSED";
}

/** A thrown value as a JSON-RPC error: `data` holds `code`, `hint?` and `retryable`. */
export function toRpcError(error: unknown): RpcError {
  const { message, ...data } = toTidingsError(error).toInfo();
  return { code: isErrorCode(data.code) ? JSON_RPC_CODES[data.code] : INVALID_PARAMS, message, data };
}
