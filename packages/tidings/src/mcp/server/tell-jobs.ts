/** What a listen with our own filter is told over stdio: events, gaps and heartbeats. Over HTTP `listen.ts` tells them. */
import type { Clock, Random } from "../../model/clock.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import type { RequestId } from "../wire/2026-07-28.ts";
import { tag, toEventNotification, toGapNotification } from "../wire/2026-07-28.ts";
import { snapshotsOf } from "./gap-snapshots.ts";
import { createHeartbeat } from "./heartbeat.ts";
import type { JobsFilter } from "./listen-filter.ts";

export interface JobListen {
  readonly tidings: Tidings;
  readonly owner: string;
  /** Of the listen request. */
  readonly id: RequestId;
  readonly jobs: JobsFilter;
  /** The cursor to go on after when `jobs` names none. */
  readonly start: string;
  readonly clock: Clock;
  readonly random: Random;
  /** How often a heartbeat is sent, in milliseconds. */
  readonly heartbeatMs: number;
  /** Ends the telling. */
  readonly signal: AbortSignal;
  /** Resolves once the connection takes more. */
  readonly send: (notification: WireNotification) => Promise<unknown>;
}

/** Resolves when the signal has aborted; rejects with what the store or the connection throws. */
export async function tellJobs(listen: JobListen): Promise<void> {
  const { tidings, owner, id, jobs, clock, heartbeatMs, signal } = listen;
  const { after = listen.start, ...filter } = jobs;
  let cursor = after;
  let sending = false;

  async function send(notification: WireNotification): Promise<void> {
    if (signal.aborted) return;
    sending = true;
    try {
      await listen.send(notification);
    } finally {
      sending = false;
    }
  }

  let stopHeartbeat = clock.after(heartbeatMs, function beat() {
    stopHeartbeat = clock.after(heartbeatMs, beat);
    // A reader who is behind hears events instead. A connection that is gone shows at the next of them.
    if (!sending) send(toEventNotification(createHeartbeat(listen, cursor), id)).catch(() => {});
  });
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
