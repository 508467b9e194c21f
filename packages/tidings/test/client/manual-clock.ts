/** A clock that moves when the test says so. */
import type { Clock } from "../../src/model/clock.ts";

export interface TestClock extends Clock {
  /** Moves time on and calls what has become due, in order. */
  advance(ms: number): void;
  /** How many calls are waiting. */
  readonly waiting: number;
}

export function createTestClock(): TestClock {
  let time = 0;
  const calls = new Set<{ at: number; call: () => void }>();
  return {
    now: () => Date.UTC(2026, 11, 1) + time,
    monotonic: () => time,
    after(ms, call) {
      const entry = { at: time + ms, call };
      calls.add(entry);
      return () => calls.delete(entry);
    },
    advance(ms) {
      const end = time + ms;
      for (;;) {
        const due = [...calls].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
        if (due === undefined) break;
        calls.delete(due);
        time = Math.max(time, due.at);
        due.call();
      }
      time = end;
    },
    get waiting() {
      return calls.size;
    },
  };
}
