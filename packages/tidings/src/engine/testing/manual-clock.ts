/** A clock that stands still until a test moves it. */
import type { Clock } from "../../model/clock.ts";

export interface ManualClock extends Clock {
  /** Lets time pass: moves both clocks and calls the timers that fall due, in order. */
  advance(ms: number): void;
  /** Sets the wall clock forward or, when negative, back; no real time passes and no timer is called. */
  step(ms: number): void;
}

interface Timer {
  readonly at: number;
  readonly call: () => void;
}

/**
 * Creates a manual clock.
 *
 * @param start.now - What the wall clock shows, in milliseconds since 1970. Default: 1 January 2030.
 * @param start.monotonic - What the monotonic clock shows. Default: one day; less than before means a restarted machine.
 */
export function createManualClock(start: { now?: number; monotonic?: number } = {}): ManualClock {
  let wall = start.now ?? Date.UTC(2030, 0, 1);
  let monotonic = start.monotonic ?? 86_400_000;
  const timers = new Set<Timer>();
  const moveTo = (at: number) => {
    wall += at - monotonic;
    monotonic = at;
  };
  return {
    now: () => wall,
    monotonic: () => monotonic,
    after(ms, call) {
      const timer = { at: monotonic + Math.max(0, ms), call };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    advance(ms) {
      const end = monotonic + ms;
      for (;;) {
        const [next] = [...timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        timers.delete(next);
        moveTo(next.at);
        next.call();
      }
      moveTo(end);
    },
    step(ms) {
      wall += ms;
    },
  };
}
