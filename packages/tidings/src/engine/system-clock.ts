/** Time and randomness of this machine. */
import { randomFillSync, randomInt } from "node:crypto";
import type { Clock, Random } from "../model/clock.ts";

/** The longest delay that a Node timer can hold; a longer one would fire at once. */
const LONGEST_TIMER_MS = 2_147_483_647;

/** The machine's clocks. `monotonic` counts from the machine's start, alike in every process. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => Number(process.hrtime.bigint()) / 1e6,
  after(ms, call) {
    let left = Number.isNaN(ms) ? 0 : Math.max(0, ms);
    let timer: NodeJS.Timeout;
    const arm = () => {
      const next = Math.min(left, LONGEST_TIMER_MS);
      left -= next;
      timer = setTimeout(() => (left > 0 ? arm() : call()), next);
      timer.unref();
    };
    arm();
    return () => clearTimeout(timer);
  },
};

const FRACTION_STEPS = 2 ** 47;

const ID_BYTES = 16;
/** Random bytes that no id was made of yet. Drawn for many ids at a time: a draw costs as much as the rest of an id. */
const drawn = Buffer.alloc(256 * ID_BYTES);
let used = drawn.length;

function drawId(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  const id = drawn.toString("base64url", used, used + ID_BYTES);
  // What was given out is a secret of its holder from now on.
  drawn.fill(0, used, used + ID_BYTES);
  used += ID_BYTES;
  return id;
}

/** The machine's source of randomness, fit for secrets. */
export const systemRandom: Random = {
  id: drawId,
  fraction: () => randomInt(FRACTION_STEPS) / FRACTION_STEPS,
};
