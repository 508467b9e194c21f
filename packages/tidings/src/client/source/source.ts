/**
 * A source: one way to read a job's story from a server. It opens, gives what it has, and may break at any time;
 * `follow` opens it again after the last cursor, so a source needs no patience and no memory of its own.
 */
import type { TidingsEvent } from "../../model/event.ts";

export interface SourceRequest {
  readonly jobId: string;
  /** Give what comes after it; undefined = from the beginning. */
  readonly after: string | undefined;
  /** An earlier attempt was open already. */
  readonly reconnect: boolean;
  /** Let go of everything when it aborts. */
  readonly signal: AbortSignal;
}

export type SourceItem =
  /** The server answered: it pushes, or it answers when asked. */
  | { readonly kind: "open"; readonly by: "push" | "poll" }
  | { readonly kind: "event"; readonly event: TidingsEvent; readonly cursor: string | undefined }
  /** Events were lost for good (the server keeps them no longer): this is how the job stands instead. */
  | { readonly kind: "snapshot"; readonly snapshot: unknown }
  /** Meant to be an event, but not valid. */
  | { readonly kind: "invalid"; readonly problem: string }
  /** A sign of life without content. */
  | { readonly kind: "alive" }
  /** The server asks for this much patience before the next attempt. */
  | { readonly kind: "patience"; readonly ms: number }
  /** The job has ended and nothing follows. */
  | { readonly kind: "end" };

export interface Source {
  /** A connection without any item for so long is taken for dead. Default 90,000. */
  readonly idleMs?: number;
  /**
   * Items in the order of the log. Returning without `end` means that the connection is gone.
   *
   * @throws TidingsError `retryable` says whether opening again may help.
   */
  open(request: SourceRequest): AsyncIterable<SourceItem>;
}
