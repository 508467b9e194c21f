/** Delays between attempts: doubling from 1 s to 5 min, each drawn from the upper half so that retries spread out. */
import type { Random } from "../model/clock.ts";

const FIRST_MS = 1_000;
const LONGEST_MS = 300_000;

/** @param failures - How many attempts have failed, from 1. */
export function backoffMs(failures: number, random: Random): number {
  const ceiling = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
  return Math.round(ceiling / 2 + random.fraction() * (ceiling / 2));
}
