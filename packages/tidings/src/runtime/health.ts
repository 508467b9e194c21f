/**
 * Whether the store can be written.
 *
 *   ok ──a write fails, or finds it full──▶ degraded ──a probe is kept──▶ ok
 *           system.degraded                  │ every 2 s        system.restored
 *                                            └─ room is made, as far as retention allows
 *
 * Both events go to open streams only: the store could not keep them.
 */
import type { Engine } from "../engine/engine.ts";
import type { Clock, Random } from "../model/clock.ts";
import { toTimestamp } from "../model/clock.ts";
import { TidingsError } from "../model/error.ts";
import type { TidingsEvent } from "../model/event.ts";

export type HealthReport =
  | { readonly status: "ok" }
  | {
      readonly status: "degraded";
      /** A sentence: what is the matter. */
      readonly reason: string;
      /** RFC 3339. */
      readonly since: string;
    };

export interface Health {
  report(): HealthReport;
  /** The engine, with an eye on its writes. */
  readonly engine: Engine;
  close(): void;
}

export interface HealthOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly random: Random;
  readonly announce: (event: TidingsEvent) => void;
  /** Removes what need not be kept. */
  readonly makeRoom: () => Promise<unknown>;
  readonly onError: (error: unknown, during: string) => void;
}

const PROBE_MS = 2_000;
/** The probe belongs to nobody, and is about as large as what jobs write. */
const PROBE_OWNER = "tidings";
const PROBE_KEY = "dev.tidings/probe";
const PROBE = "x".repeat(65_536);

const REASONS: ReadonlyMap<string, string> = new Map([
  ["STORE_FULL", "The store is full: running jobs wait for room, and no new ones are taken."],
  ["STORE_FAILED", "The store cannot be written: jobs cannot go on, and no new ones are taken."],
]);

export function createHealth(options: HealthOptions): Health {
  const { engine, clock, random, announce, makeRoom, onError } = options;
  let report: HealthReport = { status: "ok" };
  let cancelProbe = () => {};
  let closed = false;

  function say(type: "system.degraded" | "system.restored", since: string, message: string): void {
    const timestamp = toTimestamp(clock.now());
    announce({ eventId: `evt_${random.id()}`, type, timestamp, source: "tidings", since, message });
  }

  function notice(error: unknown): void {
    const message = error instanceof TidingsError ? REASONS.get(error.code) : undefined;
    if (message === undefined || closed || report.status === "degraded") return;
    const since = toTimestamp(clock.now());
    report = { status: "degraded", reason: message, since };
    onError(error, "writing to the store");
    say("system.degraded", since, message);
    scheduleProbe();
  }

  function scheduleProbe(): void {
    cancelProbe = clock.after(PROBE_MS, () => void probe());
  }

  async function probe(): Promise<void> {
    try {
      await makeRoom().catch(() => {});
      await engine.transaction(PROBE_OWNER, (values) => values.put(PROBE_KEY, PROBE));
      await engine.transaction(PROBE_OWNER, (values) => values.delete(PROBE_KEY));
      report = { status: "ok" };
      say("system.restored", toTimestamp(clock.now()), "The store can be written again.");
    } catch {
      if (!closed) scheduleProbe();
    }
  }

  /** The same method, whose failures are noticed. */
  function watched<Args extends unknown[], Answer>(write: (...args: Args) => Promise<Answer>) {
    return async (...args: Args): Promise<Answer> => {
      try {
        return await write(...args);
      } catch (error) {
        notice(error);
        throw error;
      }
    };
  }

  return {
    report: () => report,
    engine: {
      name: engine.name,
      ...(engine.location === undefined ? {} : { location: engine.location }),
      secret: engine.secret,
      start: watched((request) => engine.start(request)),
      claim: watched((request) => engine.claim(request)),
      renew: watched((leases, leaseMs) => engine.renew(leases, leaseMs)),
      apply: watched((change) => engine.apply(change)),
      publish: watched((owner, events, limit) => engine.publish(owner, events, limit)),
      transaction: (owner, work) => watched(() => engine.transaction(owner, work))(),
      // One by one, because an engine may be an object of a class, whose methods no spread copies.
      get: (owner, jobId) => engine.get(owner, jobId),
      document: (owner, jobId, name) => engine.document(owner, jobId, name),
      list: (owner, request) => engine.list(owner, request),
      read: (owner, filter, after, limit) => engine.read(owner, filter, after, limit),
      items: (owner, jobId, collection, offset, limit) =>
        engine.items(owner, jobId, collection, offset, limit),
      watch: (owner, wake) => engine.watch(owner, wake),
      holders: () => engine.holders(),
      prune: (request) => engine.prune(request),
      close: () => engine.close(),
    },
    close() {
      closed = true;
      cancelProbe();
    },
  };
}
