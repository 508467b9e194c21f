/** The ports for time and randomness. Nothing in Tidings reads a clock or draws a number by any other way. */
export interface Clock {
  /** Milliseconds since 1970, as the wall clock tells them; may step when somebody sets the clock. */
  now(): number;
  /** Milliseconds that only ever grow, at the pace of real time, alike in every process of this machine. */
  monotonic(): number;
  /** Calls back once after `ms` milliseconds (any size); returns a function that prevents it. Never holds a process open. */
  after(ms: number, call: () => void): () => void;
}

export interface Random {
  /** A text of `[0-9A-Za-z_-]` with at least 128 random bits from a source fit for secrets. */
  id(): string;
  /** 0 ≤ x < 1, for jitter. */
  fraction(): number;
}

/** RFC 3339 UTC with milliseconds. */
export function toTimestamp(ms: number): string {
  return new Date(ms).toISOString();
}
