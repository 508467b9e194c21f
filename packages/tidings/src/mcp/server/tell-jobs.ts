/** What a listen with our own filter is told, over HTTP and over stdio alike: events, gaps and heartbeats. */
import type { Clock, Random } from "../../model/clock.ts";
import { toTimestamp } from "../../model/clock.ts";
import type { EventOf } from "../../model/event.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import type { RequestId } from "../wire/2026-07-28.ts";
import { tag, toEventNotification, toGapNotification } from "../wire/2026-07-28.ts";
import { snapshotsOf } from "./gap-snapshots.ts";
import type { JobsFilter } from "./listen-filter.ts";

export interface JobListen {
  readonly tidings: Tidings;
  readonly clock: Clock;
  readonly random: Random;
  /** How often a heartbeat is sent, in milliseconds. */
  readonly heartbeatMs: number;
  readonly owner: string;
  /** Of the listen request. */
  readonly id: RequestId;
  readonly jobs: JobsFilter;
  /** The cursor to go on after when `jobs` names none. */
  readonly start: string;
  /** Ends the telling. */
  readonly signal: AbortSignal;
  /** Resolves once the connection takes more. */
  readonly send: (notification: WireNotification) => Promise<unknown>;
}

/** Resolves when the signal has aborted; rejects with what the store or the connection throws. */
export async function tellJobs(listen: JobListen): Promise<void> {
  const { tidings, clock, random, heartbeatMs, owner, id, jobs, signal } = listen;
  const { after = listen.start, ...filter } = jobs;
  let cursor = after;
  let sending = false;
  let stopHeartbeat = () => {};

  async function send(notification: WireNotification): Promise<void> {
    if (signal.aborted) return;
    sending = true;
    try {
      await listen.send(notification);
    } finally {
      sending = false;
    }
  }

  /** "I am alive, and you have had everything up to this cursor." Never stored, and nothing waits for it. */
  function beat(): void {
    stopHeartbeat = clock.after(heartbeatMs, () => {
      const event: EventOf<"system.heartbeat"> = {
        eventId: `evt_${random.id()}`,
        type: "system.heartbeat",
        timestamp: toTimestamp(clock.now()),
        source: "tidings",
        cursor,
      };
      // A reader who is behind hears events instead. A connection that is gone shows at the next of them.
      if (!sending) send(toEventNotification({ event }, id)).catch(() => {});
      beat();
    });
  }

  beat();
  try {
    for await (const item of tidings.tail({ owner, ...filter, after, signal })) {
      if (item.kind === "gap") {
        const snapshots = await snapshotsOf(tidings, owner, filter);
        await send(tag(toGapNotification(snapshots, item.cursor), id));
        continue;
      }
      cursor = item.cursor;
      await send(toEventNotification(item, id));
    }
  } finally {
    stopHeartbeat();
  }
}
