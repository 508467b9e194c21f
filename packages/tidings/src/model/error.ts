/**
 * Every code that Tidings itself gives, with whether trying the same again can help and the HTTP status under
 * which plain HTTP answers it. Handlers may fail with codes of their own. Documented in docs/errors.md.
 */
export const ERRORS = {
  BAD_INPUT: { retryable: false, status: 400 },
  BAD_CURSOR: { retryable: false, status: 400 },
  BAD_EVENT: { retryable: false, status: 400 },
  IDEMPOTENCY_CONFLICT: { retryable: false, status: 409 },
  JOB_NOT_FOUND: { retryable: false, status: 404 },
  JOB_CANCELED: { retryable: false, status: 409 },
  JOB_NOT_ENDED: { retryable: true, status: 409 },
  JOB_TYPE_UNKNOWN: { retryable: false, status: 400 },
  UPLOAD_NOT_FOUND: { retryable: false, status: 404 },
  PAYLOAD_TOO_LARGE: { retryable: false, status: 413 },
  TOO_MANY_REQUESTS: { retryable: true, status: 429 },
  QUEUE_FULL: { retryable: true, status: 429 },
  OWNER_FULL: { retryable: true, status: 429 },
  TOO_MANY_EVENTS: { retryable: false, status: 500 },
  FORBIDDEN: { retryable: false, status: 403 },
  UNAUTHENTICATED: { retryable: false, status: 401 },
  INSUFFICIENT_SCOPE: { retryable: false, status: 403 },
  AUTH_UNAVAILABLE: { retryable: true, status: 503 },
  METHOD_NOT_ALLOWED: { retryable: false, status: 405 },
  REQUEST_TIMEOUT: { retryable: true, status: 408 },
  UNREACHABLE: { retryable: true, status: 503 },
  JOB_TIMEOUT: { retryable: true, status: 500 },
  WORKER_LOST: { retryable: true, status: 500 },
  WORKER_STOPPED: { retryable: true, status: 500 },
  HANDLER_CRASHED: { retryable: true, status: 500 },
  HANDLER_FAILED: { retryable: true, status: 500 },
  LOOP_BLOCKED: { retryable: true, status: 500 },
  LEASE_LOST: { retryable: true, status: 500 },
  STORE_BUSY: { retryable: true, status: 503 },
  STORE_FULL: { retryable: true, status: 503 },
  STORE_FAILED: { retryable: true, status: 503 },
  STORE_TOO_NEW: { retryable: false, status: 500 },
  STORE_CLOSED: { retryable: true, status: 503 },
  BAD_DEFINITION: { retryable: false, status: 500 },
  INTERNAL: { retryable: true, status: 500 },
} as const satisfies Record<string, { retryable: boolean; status: number }>;

/** A code of Tidings' own. */
export type ErrorCode = keyof typeof ERRORS;

/** What a failure looks like in an event, in a snapshot and in a tool's answer. */
export interface ErrorInfo {
  /** Upper-case words joined by underscores; one of `ErrorCode` or the application's own. */
  readonly code: string;
  /** One sentence: what happened, to what. */
  readonly message: string;
  /** One sentence: what to put right. */
  readonly hint?: string;
  /** Whether the same request may succeed later without a change. */
  readonly retryable: boolean;
}

export interface TidingsErrorOptions {
  /** What to put right, in one sentence. */
  hint?: string;
  /** Overrides the table's verdict; for an application's own code the default is false. */
  retryable?: boolean;
  /** Machine-readable details. */
  data?: Readonly<Record<string, unknown>>;
  cause?: unknown;
}

/** The one error class of Tidings. `code` is stable; `message` is a sentence for people and may change. */
export class TidingsError extends Error {
  readonly code: ErrorCode | (string & {});
  readonly hint: string | undefined;
  readonly retryable: boolean;
  readonly data: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode | (string & {}), message: string, options: TidingsErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "TidingsError";
    this.code = code;
    this.hint = options.hint;
    this.retryable = options.retryable ?? (isErrorCode(code) ? ERRORS[code].retryable : false);
    this.data = options.data;
  }

  /** The error as it travels: in `job.failed`, in snapshots and in tool answers. */
  toInfo(): ErrorInfo {
    return {
      code: this.code,
      message: this.message,
      ...(this.hint === undefined ? {} : { hint: this.hint }),
      retryable: this.retryable,
    };
  }
}

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}
