/**
 * Notices what other processes commit to the same file.
 *
 * `seen` is the end of the log as far as watchers were woken for it. While this process writes, nobody else can, so
 * looking at the log's end when a transaction begins finds all that others added until then; a poll finds the rest.
 */
import type { Clock } from "../../model/clock.ts";
import type { Watchers } from "../watchers.ts";
import type { Connection } from "./driver.ts";
import { fromColumn } from "./text.ts";

/** Well below the 250 ms within which a commit is noticed. */
const POLL_MS = 100;

export interface ForeignCommits {
  /** Call when the number of watchers changed: polling goes on only while somebody watches. */
  adjust(): void;
  begun(): void;
  ending(): void;
  committed(): void;
}

export function createForeignCommits(
  reader: Connection,
  writer: Connection,
  clock: Clock,
  watchers: () => Watchers,
): ForeignCommits {
  let seen = 0;
  let version: unknown;
  let stopPolling: (() => void) | undefined;
  let ours: number | undefined;

  const endOf = ({ statement }: Connection) => Number(statement("headOfLog").get()?.position ?? 0);
  const wakeThrough = (connection: Connection, end: number) => {
    if (end <= seen) return;
    const rows = connection.statement("ownersAfter").all(seen);
    seen = end;
    watchers().wake(rows.map(({ owner }) => fromColumn(owner as string)));
  };
  const look = () => {
    try {
      const current = reader.statement("dataVersion").get()?.data_version;
      if (current === version) return;
      const end = endOf(reader);
      wakeThrough(reader, end);
      version = current;
    } catch {
      // Busy or out of order for a moment: whoever reads or writes next is told, and the next poll looks again.
    }
  };
  const poll = () => {
    stopPolling = clock.after(POLL_MS, () => {
      look();
      if (stopPolling !== undefined) poll();
    });
  };

  return {
    adjust() {
      const wanted = watchers().size > 0;
      if (wanted && stopPolling === undefined) {
        try {
          seen = endOf(reader);
          version = undefined;
        } catch {
          // Then the first poll wakes everybody once more than needed.
        }
        poll();
      } else if (!wanted && stopPolling !== undefined) {
        stopPolling();
        stopPolling = undefined;
      }
    },
    begun() {
      ours = undefined;
      if (stopPolling !== undefined) wakeThrough(writer, endOf(writer));
    },
    ending() {
      if (stopPolling !== undefined) ours = endOf(writer);
    },
    committed() {
      if (ours !== undefined) seen = Math.max(seen, ours);
    },
  };
}
