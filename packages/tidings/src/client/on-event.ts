/**
 * Handlers that are idempotent by meaning: two events about one payment credit it once, for as long as the record of
 * effects lasts.
 */
import type { EventDefinition, EventFrom } from "../model/define-event.ts";
import { TidingsError } from "../model/error.ts";
import type { CatalogueType, CustomEvent, EventOf, TidingsEvent } from "../model/event.ts";
import type { EventListener } from "./inbox.ts";
import type { Once } from "./once.ts";
import { createMemoryOnce } from "./once.ts";

/** Where events come from: an inbox, or anything that also gives repeats. */
export interface Arrivals {
  onArrival(listener: EventListener): () => void;
}

/** The event that a type's name or a definition stands for. */
export type EventFor<Type> =
  Type extends EventDefinition<string, never>
    ? EventFrom<Type>
    : Type extends CatalogueType
      ? EventOf<Type>
      : CustomEvent;

export interface HandlerOptions<Event, Transaction> {
  /** What the event is about in terms of its effect, such as a payment's id. Default: the `eventId`. */
  readonly key?: (event: Event) => string | number;
  /**
   * The record of what was handled. Default: one in memory for this handler, which forgets all of it when the process
   * ends; only `createDurableOnce` holds across restarts.
   */
  readonly once?: Once<Transaction>;
  /** Sets this handler's keys apart from those of other handlers of the same type in the same record. Default: the type. */
  readonly name?: string;
}

export interface SubscriptionOptions<Event, Transaction> extends HandlerOptions<Event, Transaction> {
  /** Errors of the handler; the event is handled again when it is repeated. Default: `console.error`. */
  readonly onError?: (error: unknown, event: Event) => void;
}

/** Handles one event: `other` when it is of another type. Rejects when the handler failed; then the event may be given again. */
export type EventHandler = (event: TidingsEvent) => Promise<"done" | "repeat" | "other">;

type Effect<Event, Transaction> = (event: Event, transaction: Transaction) => void | Promise<void>;

/** Two handlers with one name in one record would keep each other from running. */
const NAMES = new WeakMap<object, Set<string>>();

/**
 * Makes a handler that runs its effect once for each key, however often the event is given to it; across restarts only
 * with `once: createDurableOnce(…)`. For servers that read the log themselves: move on (keep the cursor) when the promise
 * resolves.
 */
export function createEventHandler<
  const Type extends string | EventDefinition<string, never>,
  Transaction = undefined,
>(
  type: Type,
  options: HandlerOptions<EventFor<Type>, Transaction>,
  effect: Effect<EventFor<Type>, Transaction>,
): EventHandler {
  const definition: EventDefinition<string, never> | undefined = typeof type === "string" ? undefined : type;
  const typeName = typeof type === "string" ? type : type.type;
  const { key, once = createMemoryOnce() as Once<unknown> as Once<Transaction>, name = typeName } = options;
  return async (event) => {
    if (event.type !== typeName) return "other";
    const problem = definition?.findProblem(event);
    if (problem !== undefined) {
      throw new TidingsError("BAD_EVENT", `The event "${event.eventId}" was not handled: ${problem}.`);
    }
    const typed = event as unknown as EventFor<Type>;
    const meaning = key === undefined ? event.eventId : key(typed);
    if (meaning === "" || (typeof meaning !== "string" && !Number.isFinite(meaning))) {
      throw new TidingsError(
        "BAD_EVENT",
        `The event "${event.eventId}" was not handled: it has no key for "${name}".`,
        { hint: "Return a text or a number from `key`." },
      );
    }
    // As JSON, no name and key can be mistaken for another pair.
    return once.once(JSON.stringify([name, meaning]), (transaction) => effect(typed, transaction));
  };
}

/**
 * Handles events of a type as they arrive: `onEvent(inbox, "order.paid", { key: (e) => e.paymentId, once }, handler)`.
 * The handler runs once for each key; one that throws is tried again when the event is repeated. Across restarts that
 * holds only with `once: createDurableOnce(…)`: without it an event that is told again after one is handled again.
 *
 * @returns the way to stop.
 * @throws TidingsError BAD_DEFINITION when another handler with this name uses the same record.
 */
export function onEvent<const Type extends string | EventDefinition<string, never>, Transaction = undefined>(
  arrivals: Arrivals,
  type: Type,
  options: SubscriptionOptions<EventFor<Type>, Transaction>,
  effect: Effect<EventFor<Type>, Transaction>,
): () => void {
  const handle = createEventHandler(type, options, effect);
  const { once, onError = (error: unknown) => console.error(error) } = options;
  const name = options.name ?? (typeof type === "string" ? type : type.type);
  const forget = once === undefined ? () => undefined : claim(once, name);
  const stop = arrivals.onArrival((event) => {
    handle(event).catch((error: unknown) => onError(error, event as unknown as EventFor<Type>));
  });
  return () => {
    stop();
    forget();
  };
}

function claim(once: object, name: string): () => void {
  const names = NAMES.get(once) ?? new Set<string>();
  if (names.has(name)) {
    throw new TidingsError("BAD_DEFINITION", `Two handlers are named "${name}" in one record of effects.`, {
      hint: "Give each its own `name`, so that one does not count as the other's repeat.",
    });
  }
  NAMES.set(once, names.add(name));
  return () => {
    names.delete(name);
  };
}
