/** "I am alive, and you have had everything up to this cursor": an event that is never stored. */
import type { Clock, Random } from "../../model/clock.ts";
import { toTimestamp } from "../../model/clock.ts";
import type { EventOf } from "../../model/event.ts";

/** A heartbeat for a reader who has had everything up to `cursor`. */
export function createHeartbeat(
  { clock, random }: { readonly clock: Clock; readonly random: Random },
  cursor: string,
): { readonly event: EventOf<"system.heartbeat"> } {
  return {
    event: {
      eventId: `evt_${random.id()}`,
      type: "system.heartbeat",
      timestamp: toTimestamp(clock.now()),
      source: "tidings",
      cursor,
    },
  };
}
