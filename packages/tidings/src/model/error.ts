/**
 * Every code that Tidings itself gives, and whether trying the same again can help. Handlers may fail with codes of
 * their own. Documented in docs/errors.md.
 */
export const RETRYABLE = {
  BAD_INPUT: false,
  BAD_CURSOR: false,
  BAD_EVENT: false,
  BAD_MESSAGE: false,
  IDEMPOTENCY_CONFLICT: false,
  JOB_NOT_FOUND: false,
  JOB_CANCELED: false,
  JOB_NOT_ENDED: true,
  JOB_TYPE_UNKNOWN: false,
  UPLOAD_NOT_FOUND: false,
  PAYLOAD_TOO_LARGE: false,
  TOO_MANY_REQUESTS: true,
  QUEUE_FULL: true,
  OWNER_FULL: true,
  SERVER_FULL: true,
  TOO_MANY_EVENTS: false,
  FORBIDDEN: false,
  UNAUTHENTICATED: false,
  INSUFFICIENT_SCOPE: false,
  AUTH_UNAVAILABLE: true,
  METHOD_NOT_ALLOWED: false,
  REQUEST_TIMEOUT: true,
  UNREACHABLE: true,
  JOB_TIMEOUT: true,
  WORKER_LOST: true,
  WORKER_STOPPED: true,
  HANDLER_CRASHED: true,
  HANDLER_FAILED: true,
  LOOP_BLOCKED: true,
  LEASE_LOST: true,
  STORE_BUSY: true,
  STORE_FULL: true,
  STORE_FAILED: true,
  STORE_TOO_NEW: false,
  STORE_CLOSED: true,
  BAD_DEFINITION: false,
  INTERNAL: true,
} as const satisfies Record<string, boolean>;

/** A code of Tidings' own. */
export type ErrorCode = keyof typeof RETRYABLE;

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
    this.retryable = options.retryable ?? (isErrorCode(code) && RETRYABLE[code]);
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
  return Object.hasOwn(RETRYABLE, code);
}
