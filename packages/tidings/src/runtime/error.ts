/** The only two decisions that a handler takes about its errors. */
import type { TidingsErrorOptions } from "../model/error.ts";
import { TidingsError } from "../model/error.ts";

/** Ends the job as failed: trying again would fail again. */
export class PermanentError extends TidingsError {
  /**
   * @param code - Upper-case words joined by underscores; people and agents decide by it.
   * @param message - One sentence: what happened, to what.
   * @param options.hint - One sentence: what to put right.
   */
  constructor(code: string, message: string, options: Omit<TidingsErrorOptions, "retryable"> = {}) {
    super(code, message, { ...options, retryable: false });
    this.name = "PermanentError";
  }
}

/** Ends this attempt; the next one begins after `delayMs` milliseconds. Counts against the attempts. */
export class RetryAfter extends TidingsError {
  readonly delayMs: number;

  constructor(
    delayMs: number,
    message: string,
    options: TidingsErrorOptions & { readonly code?: string } = {},
  ) {
    super(options.code ?? "HANDLER_FAILED", message, { ...options, retryable: true });
    this.name = "RetryAfter";
    this.delayMs = Number.isFinite(delayMs) ? Math.max(0, delayMs) : 0;
  }
}
