/** Randomness that repeats: the same seed gives the same ids and the same jitter. */
import type { Random } from "../../model/clock.ts";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";

/** Creates a repeatable source for tests; never use it where an id must not be guessed. */
export function createSeededRandom(seed: number): Random {
  let state = seed >>> 0;
  // A Weyl sequence through an integer hash: short, and good enough to look random.
  const fraction = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let hash = state;
    hash = Math.imul(hash ^ (hash >>> 16), 0x21f0aaad);
    hash = Math.imul(hash ^ (hash >>> 15), 0x735a2d97);
    return ((hash ^ (hash >>> 15)) >>> 0) / 2 ** 32;
  };
  return {
    id: () => Array.from({ length: 22 }, () => ALPHABET.charAt(Math.floor(fraction() * 64))).join(""),
    fraction,
  };
}
