/** Time and randomness as a browser (and Node) gives them: the defaults of everything in this folder. */
import type { Clock, Random } from "../model/clock.ts";

/** `setTimeout` calls back at once for anything longer. */
const LONGEST_TIMEOUT_MS = 2_147_483_647;

/** Unlike a server's clock it keeps a process open: a program that follows a job wants to see the end of it. */
export const browserClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, call) {
    let timer: ReturnType<typeof setTimeout>;
    const arm = (left: number): void => {
      const step = Math.min(left, LONGEST_TIMEOUT_MS);
      timer = setTimeout(() => (left > step ? arm(left - step) : call()), step);
    };
    if (ms !== Number.POSITIVE_INFINITY) arm(Math.max(0, ms));
    return () => clearTimeout(timer);
  },
};

export const browserRandom: Random = {
  id() {
    const bytes = crypto.getRandomValues(new Uint8Array(18));
    return btoa(String.fromCharCode(...bytes))
      .replaceAll("+", "-")
      .replaceAll("/", "_");
  },
  fraction: () => Math.random(),
};
