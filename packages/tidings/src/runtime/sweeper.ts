/** Removes jobs and events whose retention is over, in the background. */
import type { PruneRequest } from "../engine/engine.ts";
import type { Clock } from "../model/clock.ts";

const SWEEP_INTERVAL_MS = 600_000;

export interface Sweeper {
  close(): void;
}

export function createSweeper(options: {
  readonly prune: (request: PruneRequest) => Promise<unknown>;
  readonly clock: Clock;
  /** How long an ended job, and an event without a job, is kept, in milliseconds. */
  readonly retentionMs: number;
  readonly onError: (error: unknown, during: string) => void;
}): Sweeper {
  const { prune, clock, retentionMs, onError } = options;
  let closed = false;
  let cancel = clock.after(0, sweep);

  function sweep(): void {
    prune({ olderThanMs: retentionMs })
      .catch((error: unknown) => {
        if (!closed) onError(error, "removing expired jobs");
      })
      .finally(() => {
        if (!closed) cancel = clock.after(SWEEP_INTERVAL_MS, sweep);
      });
  }

  return {
    close() {
      closed = true;
      cancel();
    },
  };
}
