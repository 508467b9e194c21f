/** Waiting that a signal and a clock can end. */
import type { Clock } from "../../model/clock.ts";

/** Resolves after `ms` milliseconds, or at once when the signal aborts. */
export function pause(clock: Clock, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const cancel = clock.after(ms, end);
    function end(): void {
      cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    }
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** A wake-up that is never lost: one that comes while nobody waits ends the next wait at once. */
export interface Bell {
  ring(): void;
  /** Resolves `true` once it was rung since the last wait, `false` when `ms` milliseconds passed. One waiter at a time. */
  wait(ms: number): Promise<boolean>;
}

export function createBell(clock: Clock): Bell {
  let rung = false;
  let wake: ((byBell: boolean) => void) | undefined;
  return {
    ring() {
      rung = true;
      wake?.(true);
    },
    wait(ms) {
      return new Promise((resolve) => {
        const end = (byBell: boolean): void => {
          cancel();
          wake = undefined;
          rung = false;
          resolve(byBell);
        };
        const cancel = rung ? () => undefined : clock.after(ms, () => end(false));
        if (rung) end(true);
        else wake = end;
      });
    },
  };
}
