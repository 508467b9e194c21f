/** Follows a log: read what is there, then wait to be woken, at the reader's own pace. Nothing is buffered for it. */
import type { Engine, EventFilter, LogEntry } from "../engine/engine.ts";

const PAGE = 256;

export type LogItem =
  | { readonly kind: "entry"; readonly entry: LogEntry }
  /** Matching events after `after` are no longer kept. */
  | { readonly kind: "gap"; readonly after: number };

/**
 * Yields the entries after a position, in order, until the signal aborts. Subscribes before it reads, so nothing falls
 * between what was stored and what comes.
 */
export async function* tailLog(
  engine: Engine,
  owner: string,
  filter: EventFilter,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<LogItem, void, undefined> {
  const bell = createBell();
  const stopWatching = engine.watch(owner, bell.ring);
  signal.addEventListener("abort", bell.ring);
  try {
    let position = after;
    while (!signal.aborted) {
      bell.reset();
      const reading = await engine.read(owner, filter, position, PAGE);
      if (reading.truncated) yield { kind: "gap", after: position };
      for (const entry of reading.entries) {
        if (signal.aborted) return;
        yield { kind: "entry", entry };
      }
      position = Math.max(position, reading.through);
      if (reading.entries.length < PAGE) await bell.rung();
    }
  } finally {
    signal.removeEventListener("abort", bell.ring);
    stopWatching();
  }
}

interface Bell {
  ring(): void;
  reset(): void;
  /** Resolves at the next ring, at once when it rang since the last reset. */
  rung(): Promise<void>;
}

export function createBell(): Bell {
  let rang = false;
  let listener: (() => void) | undefined;
  return {
    ring() {
      rang = true;
      listener?.();
      listener = undefined;
    },
    reset() {
      rang = false;
    },
    rung: () =>
      rang
        ? Promise.resolve()
        : new Promise<void>((resolve) => {
            listener = resolve;
          }),
  };
}
