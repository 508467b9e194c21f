/** How often one owner may ask how things stand: enough for thousands of widgets, not for a loop without a pause. */
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { Tidings } from "../../runtime/tidings.ts";

/** Polls that may come at once, and how many more each second allows. */
const BURST = 2_000;
const PER_SECOND = 200;
/** Owners that are remembered; beyond it all begin anew, in their favour. */
const MAX_OWNERS = 10_000;

interface Allowance {
  left: number;
  at: number;
}

const ALLOWANCES = new WeakMap<Tidings, Map<string, Allowance>>();

/** @throws TidingsError TOO_MANY_REQUESTS with the limit, and when to ask again. */
export function checkPolls(tidings: Tidings, clock: Pick<Clock, "monotonic">, owner: string): void {
  const owners = ALLOWANCES.get(tidings) ?? new Map<string, Allowance>();
  ALLOWANCES.set(tidings, owners);
  if (owners.size >= MAX_OWNERS) owners.clear();
  const now = clock.monotonic();
  const allowance = owners.get(owner) ?? { left: BURST, at: now };
  owners.set(owner, allowance);
  allowance.left = Math.min(BURST, allowance.left + ((now - allowance.at) / 1_000) * PER_SECOND);
  allowance.at = now;
  if (allowance.left < 1) {
    throw new TidingsError(
      "TOO_MANY_REQUESTS",
      `You ask more than ${PER_SECOND} times a second, and no more are answered.`,
      {
        hint: "Let the server wait for news with waitSeconds, or follow a stream.",
        data: { limit: PER_SECOND, retryAfterMs: 1_000 },
      },
    );
  }
  allowance.left -= 1;
}
