/**
 * How often one owner may ask: one allowance for everything that reads the store for a stranger, or changes a job that
 * exists, whatever the door. Enough for thousands of widgets, not for a loop without a pause. Starts have limits of their
 * own.
 */
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { Tidings } from "../../runtime/tidings.ts";

/** Questions that may come at once, and how many more each second allows. All streams of an owner may come back at once. */
const BURST = 10_000;
const PER_SECOND = 200;
/** Owners that are remembered; beyond it all begin anew, in their favour. */
const MAX_OWNERS = 10_000;

interface Allowance {
  left: number;
  at: number;
}

const ALLOWANCES = new WeakMap<Tidings, Map<string, Allowance>>();

/**
 * Counts one question of an owner.
 *
 * @param weight - How many jobs it asks for. Default 1.
 * @throws TidingsError TOO_MANY_REQUESTS with the limit, and when to ask again.
 */
export function checkPolls(
  tidings: Tidings,
  clock: Pick<Clock, "monotonic">,
  owner: string,
  weight = 1,
): void {
  const owners = ALLOWANCES.get(tidings) ?? new Map<string, Allowance>();
  ALLOWANCES.set(tidings, owners);
  if (owners.size >= MAX_OWNERS) owners.clear();
  const now = clock.monotonic();
  const allowance = owners.get(owner) ?? { left: BURST, at: now };
  owners.set(owner, allowance);
  allowance.left = Math.min(BURST, allowance.left + ((now - allowance.at) / 1_000) * PER_SECOND);
  allowance.at = now;
  if (allowance.left < weight) {
    throw new TidingsError(
      "TOO_MANY_REQUESTS",
      `You ask more than ${PER_SECOND} times a second, and no more are answered.`,
      {
        hint: "Let the server wait for news with waitSeconds, or follow a stream.",
        data: { limit: PER_SECOND, retryAfterMs: Math.ceil(weight / PER_SECOND) * 1_000 },
      },
    );
  }
  allowance.left -= weight;
}
