/**
 * What owners keep and have waiting. Changes are added up while a transaction runs and written once for each owner before
 * it ends: one statement for a commit, however many events it holds.
 */
import type { Connection } from "./driver.ts";

export interface Usage {
  /** Everything that the owner keeps, as weight.ts counts it. */
  readonly bytes: number;
  /** Pending jobs. */
  readonly waitingJobs: number;
  /** Bytes of their inputs. */
  readonly waitingBytes: number;
}

/** Owners are named as their columns name them (text.ts). */
export interface UsageBook {
  /** Inside a transaction with all that it changed so far. */
  of(owner: string): Usage;
  add(owner: string, change: Partial<Usage>): void;
  /** Call inside the transaction before it ends, and before whatever may be undone alone. */
  write(): void;
  /** What was added since the last `write` was undone. */
  forget(): void;
}

/** The connection that writes, and the book of what it writes. */
export interface WriteConnection extends Connection {
  readonly usage: UsageBook;
}

const NOTHING: Usage = { bytes: 0, waitingJobs: 0, waitingBytes: 0 };

export function createUsageBook({ statement }: Connection): UsageBook {
  const changes = new Map<string, { bytes: number; waitingJobs: number; waitingBytes: number }>();
  return {
    of(owner) {
      const row = statement("usage").get(owner);
      const change = changes.get(owner) ?? NOTHING;
      return {
        bytes: Number(row?.bytes ?? 0) + change.bytes,
        waitingJobs: Number(row?.waiting_jobs ?? 0) + change.waitingJobs,
        waitingBytes: Number(row?.waiting_bytes ?? 0) + change.waitingBytes,
      };
    },
    add(owner, { bytes = 0, waitingJobs = 0, waitingBytes = 0 }) {
      const change = changes.get(owner);
      if (change === undefined) {
        changes.set(owner, { bytes, waitingJobs, waitingBytes });
        return;
      }
      change.bytes += bytes;
      change.waitingJobs += waitingJobs;
      change.waitingBytes += waitingBytes;
    },
    write() {
      for (const [owner, { bytes, waitingJobs, waitingBytes }] of changes) {
        statement("addUsage").run(owner, bytes, waitingJobs, waitingBytes);
        if (bytes < 0) statement("deleteNoUsage").run(owner);
      }
      changes.clear();
    },
    forget() {
      changes.clear();
    },
  };
}
