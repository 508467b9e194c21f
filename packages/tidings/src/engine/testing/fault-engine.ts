/**
 * An engine around another one, whose writes fail as those of real stores do.
 *
 *   write ──▶ before: nothing is kept, the caller hears an error
 *        ├──▶ after:  it is kept, and the caller hears an error (indeterminate: both must be survivable)
 *        ├──▶ slow:   it is kept, later
 *        └──▶ die-before, die-after: as before and after, but nobody hears anything, now or ever: a killed process
 */
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { Change, Engine, JobTransaction, Transaction } from "../engine.ts";
import { systemClock } from "../system-clock.ts";
import { createSeededRandom } from "./seeded-random.ts";

/** What may happen to a write. */
export type Fault = "before" | "after" | "slow" | "die-before" | "die-after";

/** The methods of the port that write. */
export type WriteMethod = "start" | "claim" | "renew" | "apply" | "publish" | "transaction" | "prune";

/** One write that was asked for. */
export interface Write {
  readonly method: WriteMethod;
  /** Its number among all writes, from 1. */
  readonly number: number;
  /** With `apply`: what was asked for. */
  readonly change?: Change;
}

/** When something goes wrong, and what. All conditions must hold; with none, every write is meant. */
export interface FaultRule {
  readonly fault: Fault;
  /** Only writes by these methods. Default: all of them. */
  readonly methods?: readonly WriteMethod[];
  /** Only the writes with these numbers, counted from 1 among those of the rule's methods. */
  readonly at?: readonly number[];
  /** Only with this chance, from 0 to 1. */
  readonly chance?: number;
  /** Only writes that this accepts. */
  readonly when?: (write: Write) => boolean;
  /** What the caller hears with `before` and `after`. Default: STORE_FAILED, which says whether the change was kept. */
  readonly error?: () => unknown;
  /** How long `slow` takes, in milliseconds of the plan's clock. Default 1 000. */
  readonly slowMs?: number;
}

export interface FaultPlan {
  /** The first rule that fits a write decides. */
  readonly rules: readonly FaultRule[];
  /** For chances: the same seed gives the same faults for the same writes. Default 1. */
  readonly seed?: number;
  /** For `slow`. Default: the machine's clock. */
  readonly clock?: Clock;
  /** Hears of every write before anything is done with it. */
  readonly onWrite?: (write: Write) => void;
}

/** An engine with faults. */
export interface FaultEngine extends Engine {
  /** How many writes were asked for so far. */
  readonly writes: number;
  /** The write at which it went dead; undefined while it lives, and when `kill` did it. */
  readonly diedAt: Write | undefined;
  readonly dead: boolean;
  /** Resolves when it goes dead. */
  readonly died: Promise<void>;
  /** Goes dead now: calls under way and later ones are never answered, watchers are never woken. */
  kill(): void;
  /**
   * Closes the engine behind it. On a dead one, what the runtime asked for (claims, renewals, ends of attempts, pruning)
   * now fails with STORE_CLOSED, so that a runtime whose closing has begun can end; what handlers asked for is never
   * answered.
   */
  close(): Promise<void>;
}

/**
 * Puts an engine behind faults: `createFaultEngine(engine, { rules: [{ fault: "after", methods: ["apply"], at: [3] }] })`.
 * Reads are not harmed, but a dead engine does not answer them.
 */
export function createFaultEngine(engine: Engine, plan: FaultPlan): FaultEngine {
  const random = createSeededRandom(plan.seed ?? 1);
  const clock = plan.clock ?? systemClock;
  const matched = plan.rules.map(() => 0);
  /** What ends with the process: watchers, and transactions that were begun. */
  const stops = new Set<() => void>();
  const death = deferred();
  const release = deferred();
  let writes = 0;
  let dead = false;
  let diedAt: Write | undefined;
  let released = false;

  function ruleFor(write: Write): FaultRule | undefined {
    let chosen: FaultRule | undefined;
    for (const [index, rule] of plan.rules.entries()) {
      if (rule.methods?.includes(write.method) === false || rule.when?.(write) === false) continue;
      // Every rule counts its own writes, whichever decides: `at` does not depend on the other rules.
      matched[index] = (matched[index] ?? 0) + 1;
      if (rule.at?.includes(matched[index] ?? 0) === false) continue;
      if (rule.chance !== undefined && random.fraction() >= rule.chance) continue;
      chosen ??= rule;
    }
    return chosen;
  }

  function die(write?: Write): void {
    if (dead) return;
    dead = true;
    diedAt = write;
    for (const stop of stops) stop();
    stops.clear();
    death.resolve();
  }

  /** Never settles; but lets go of the runtime's own calls when the engine is closed. */
  function silence(method: string, change?: Change): Promise<never> {
    if (released) return Promise.reject(closedError());
    if (!isOfTheRuntime(method, change)) return new Promise<never>(() => undefined);
    return release.promise.then(() => Promise.reject(closedError()));
  }

  /** Passes an answer on, unless death came first. */
  async function alive<T>(method: string, call: () => Promise<T>, change?: Change): Promise<T> {
    if (dead) return silence(method, change);
    let answer: T;
    try {
      answer = await call();
    } catch (error) {
      if (dead) return silence(method, change);
      throw error;
    }
    return dead ? silence(method, change) : answer;
  }

  async function write<T>(method: WriteMethod, call: () => Promise<T>, change?: Change): Promise<T> {
    if (dead) return silence(method, change);
    writes += 1;
    const site: Write = { method, number: writes, ...(change === undefined ? {} : { change }) };
    plan.onWrite?.(site);
    const rule = ruleFor(site);
    switch (rule?.fault) {
      case "before":
        throw errorOf(rule, site, "so nothing was changed");
      case "die-before":
        die(site);
        return silence(method, change);
      case "slow": {
        const { slowMs = 1_000 } = rule;
        await alive(method, () => new Promise<void>((resolve) => void clock.after(slowMs, resolve)));
        return alive(method, call, change);
      }
      case "after": {
        await alive(method, call, change);
        throw errorOf(rule, site, "and it is uncertain whether the change was kept");
      }
      case "die-after":
        await alive(method, call, change);
        die(site);
        return silence(method, change);
      default:
        return alive(method, call, change);
    }
  }

  /** A process that dies inside a transaction takes the transaction along. */
  function mortal<T extends Transaction, R>(
    work: (transaction: T) => R | Promise<R>,
  ): (transaction: T) => Promise<R> {
    return (transaction) =>
      new Promise<R>((resolve, reject) => {
        const stop = () => reject(closedError());
        stops.add(stop);
        (async () => work(transaction))()
          .then(resolve, reject)
          .finally(() => stops.delete(stop));
      });
  }

  return {
    name: engine.name,
    secret: engine.secret,
    get writes() {
      return writes;
    },
    get dead() {
      return dead;
    },
    get diedAt() {
      return diedAt;
    },
    died: death.promise,
    kill: () => die(),

    start: (request) => write("start", () => engine.start(request)),
    claim: (request) => write("claim", () => engine.claim(request)),
    renew: (leases, leaseMs) => write("renew", () => engine.renew(leases, leaseMs)),
    apply(change) {
      const { write: callback, ...rest } = change;
      const inner =
        callback === undefined ? change : { ...rest, write: mortal<JobTransaction, void>(callback) };
      return write("apply", () => engine.apply(inner), change);
    },
    publish: (owner, events, limit) => write("publish", () => engine.publish(owner, events, limit)),
    transaction: <T>(owner: string, work: (transaction: Transaction) => T | Promise<T>) =>
      write("transaction", () => engine.transaction(owner, mortal<Transaction, T>(work))),
    prune: (request) => write("prune", () => engine.prune(request)),

    get: (owner, jobId) => alive("get", () => engine.get(owner, jobId)),
    document: (owner, jobId, name) => alive("document", () => engine.document(owner, jobId, name)),
    list: (owner, request) => alive("list", () => engine.list(owner, request)),
    read: (owner, filter, after, limit) => alive("read", () => engine.read(owner, filter, after, limit)),
    items: (owner, jobId, collection, offset, limit) =>
      alive("items", () => engine.items(owner, jobId, collection, offset, limit)),
    holders: () => alive("holders", () => engine.holders()),
    watch(owner, wake) {
      if (dead) return () => undefined;
      const stop = engine.watch(owner, wake);
      stops.add(stop);
      return () => {
        stops.delete(stop);
        stop();
      };
    },
    close() {
      released = true;
      release.resolve();
      return engine.close();
    },
  };
}

/** Calls that only the runtime makes: letting go of them wakes no handler of a dead process. */
function isOfTheRuntime(method: string, change: Change | undefined): boolean {
  return (
    ["claim", "renew", "holders", "prune"].includes(method) ||
    ["complete", "fail", "retry"].includes(change?.command?.type ?? "")
  );
}

function errorOf(rule: FaultRule, { method, number }: Write, consequence: string): unknown {
  if (rule.error !== undefined) return rule.error();
  return new TidingsError(
    "STORE_FAILED",
    `The store failed at write ${number} (${method}), ${consequence}.`,
    {
      hint: "A fault engine did so on purpose.",
    },
  );
}

function closedError(): TidingsError {
  return new TidingsError("STORE_CLOSED", "The store was closed after its process was killed on purpose.");
}

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
