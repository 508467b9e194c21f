/** The one table from Tidings' error codes to JSON-RPC's, for places that answer with a JSON-RPC error. */
import type { ErrorCode, ErrorInfo } from "../model/error.ts";
import { isErrorCode, TidingsError } from "../model/error.ts";

/** JSON-RPC 2.0: this is no request. */
export const INVALID_REQUEST = -32600;
/** JSON-RPC 2.0: what the request asks with is wrong. */
export const INVALID_PARAMS = -32602;
/** JSON-RPC 2.0: the server failed. */
export const INTERNAL_ERROR = -32603;

/** What a JSON-RPC client gets for each code. The code itself always stands in `data.code`. */
export const JSON_RPC_CODES: Readonly<Record<ErrorCode, number>> = {
  BAD_INPUT: INVALID_PARAMS,
  BAD_CURSOR: INVALID_PARAMS,
  BAD_EVENT: INVALID_PARAMS,
  BAD_MESSAGE: INVALID_REQUEST,
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
  SERVER_FULL: INTERNAL_ERROR,
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

/** The HTTP status of an answer that is nothing but the error. */
export const HTTP_STATUSES: Readonly<Record<ErrorCode, number>> = {
  BAD_INPUT: 400,
  BAD_CURSOR: 400,
  BAD_EVENT: 400,
  BAD_MESSAGE: 400,
  IDEMPOTENCY_CONFLICT: 409,
  JOB_NOT_FOUND: 404,
  JOB_CANCELED: 409,
  JOB_NOT_ENDED: 409,
  JOB_TYPE_UNKNOWN: 400,
  UPLOAD_NOT_FOUND: 404,
  PAYLOAD_TOO_LARGE: 413,
  TOO_MANY_REQUESTS: 429,
  QUEUE_FULL: 429,
  OWNER_FULL: 429,
  SERVER_FULL: 503,
  TOO_MANY_EVENTS: 500,
  FORBIDDEN: 403,
  UNAUTHENTICATED: 401,
  INSUFFICIENT_SCOPE: 403,
  AUTH_UNAVAILABLE: 503,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  UNREACHABLE: 503,
  JOB_TIMEOUT: 500,
  WORKER_LOST: 500,
  WORKER_STOPPED: 500,
  HANDLER_CRASHED: 500,
  HANDLER_FAILED: 500,
  LOOP_BLOCKED: 500,
  LEASE_LOST: 500,
  STORE_BUSY: 503,
  STORE_FULL: 503,
  STORE_FAILED: 503,
  STORE_TOO_NEW: 500,
  STORE_CLOSED: 503,
  BAD_DEFINITION: 500,
  INTERNAL: 500,
};

/** The figures of a limit, beside the sentence that names it. */
export interface ErrorFigures {
  /** What is allowed, in the unit of the sentence. */
  readonly limit?: number;
  /** When to ask again, in milliseconds. */
  readonly retryAfterMs?: number;
}

/** A failure as tools and plain HTTP answer it. */
export interface AnsweredError extends ErrorInfo {
  readonly data?: ErrorFigures;
}

/** The `error` member of a JSON-RPC answer. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data: Omit<ErrorInfo, "message"> & ErrorFigures;
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
      data: { ...figuresOf(error) },
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

/** A thrown value as tools and plain HTTP answer it: `data` is there when it has figures. */
export function toAnsweredError(error: unknown): AnsweredError {
  const known = toTidingsError(error);
  const data = figuresOf(known);
  return { ...known.toInfo(), ...(Object.keys(data).length === 0 ? {} : { data }) };
}

/** A thrown value as a JSON-RPC error: `data` holds `code`, `hint?`, `retryable` and the figures. */
export function toRpcError(error: unknown): RpcError {
  const known = toTidingsError(error);
  const { message, ...info } = known.toInfo();
  const code = isErrorCode(info.code) ? JSON_RPC_CODES[info.code] : INVALID_PARAMS;
  return { code, message, data: { ...info, ...figuresOf(known) } };
}

/** Only these travel: what else an error carries may be for the operator alone. */
function figuresOf({ data }: TidingsError): ErrorFigures {
  const { limit, retryAfterMs } = data ?? {};
  return {
    ...(typeof limit === "number" ? { limit } : {}),
    ...(typeof retryAfterMs === "number" ? { retryAfterMs } : {}),
  };
}
