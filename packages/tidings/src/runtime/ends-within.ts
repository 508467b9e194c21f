/**
 * The patience of a process that ends. For the store it waits in the machine's time: disks and networks know no other.
 * For handlers it waits in the machine's or the injected clock's, whichever passes first, so that a clock that stands
 * still holds nobody.
 */
import { systemClock } from "../engine/system-clock.ts";
import type { Clock } from "../model/clock.ts";

/**
 * Whether `work` ends before one of the clocks has told so many milliseconds. Rejects when `work` does in time; later
 * than that nobody hears of it.
 *
 * @param clock - Asked beside the machine's. Default: none.
 */
export async function endsWithin(
  work: Promise<unknown>,
  ms: number,
  clock: Clock = systemClock,
): Promise<boolean> {
  const stops: (() => void)[] = [];
  const late = new Promise<false>((resolve) => {
    for (const each of new Set([clock, systemClock])) stops.push(each.after(ms, () => resolve(false)));
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    for (const stop of stops) stop();
  }
}
