/** "I am alive, and you have had everything up to this cursor": an event that is never stored. */
import type { Clock, Random } from "../../model/clock.ts";
import { toTimestamp } from "../../model/clock.ts";
import type { EventOf } from "../../model/event.ts";

export interface HeartbeatOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** How often a heartbeat is sent, in milliseconds. */
  readonly heartbeatMs: number;
}

/** Calls `beat` with an event every so often; returns the way to stop. */
export function startHeartbeat(
  { clock, random, heartbeatMs }: HeartbeatOptions,
  cursorNow: () => string,
  beat: (heartbeat: { readonly event: EventOf<"system.heartbeat"> }) => void,
): () => void {
  let cancel = clock.after(heartbeatMs, function again() {
    cancel = clock.after(heartbeatMs, again);
    beat({
      event: {
        eventId: `evt_${random.id()}`,
        type: "system.heartbeat",
        timestamp: toTimestamp(clock.now()),
        source: "tidings",
        cursor: cursorNow(),
      },
    });
  });
  return () => cancel();
}
