/** Removes what need not be kept any longer, in the background. */
import type { Clock } from "../model/clock.ts";

/** Often, because a busy store can outgrow its limit within minutes; a sweep without work costs next to nothing. */
const SWEEP_INTERVAL_MS = 60_000;

export interface Sweeper {
  close(): void;
}

export function createSweeper(options: {
  readonly sweep: () => Promise<unknown>;
  readonly clock: Clock;
  readonly onError: (error: unknown, during: string) => void;
}): Sweeper {
  const { clock, onError } = options;
  let closed = false;
  let cancel = clock.after(0, sweep);

  function sweep(): void {
    options
      .sweep()
      .catch((error: unknown) => {
        if (!closed) onError(error, "removing what is no longer kept");
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
