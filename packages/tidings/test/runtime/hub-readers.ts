/** Readers of a hub over the store in memory, for its tests. */
import { onTestFinished } from "vitest";
import type { Engine, EventFilter } from "../../src/engine/engine.ts";
import { createMemoryEngine } from "../../src/engine/memory/engine.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { createHub } from "../../src/runtime/hub.ts";
import type { Subscription, TailItem } from "../../src/runtime/tidings.ts";

/** Shows whose cursor it is, and where it stands. */
export const sealOf = (owner: string) => (position: number) => `${owner}/${position}`;
/** What the hub reported. */
export const faults: unknown[] = [];
export const onError = (fault: unknown) => void faults.push(fault);

/** What is read is on its way for a while, and others commit meanwhile. */
function withLag(engine: Engine, lags: readonly number[]): Engine {
  let readings = 0;
  return {
    ...engine,
    async read(...request) {
      const reading = await engine.read(...request);
      const lag = lags[readings++ % lags.length] ?? 0;
      for (let turns = 0; turns < lag; turns += 1) await turn();
      return reading;
    },
  };
}

export function open(lags: readonly number[] = [0]): { engine: Engine; hub: ReturnType<typeof createHub> } {
  const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
  onTestFinished(() => engine.close());
  return { engine, hub: createHub({ engine: withLag(engine, lags), sealOf, onError }) };
}

let events = 0;

/** An event that concerns no job, of one of a few resources and runs. */
export function makeEvent(resourceId: string, correlationId?: string): TidingsEvent {
  events += 1;
  const about = correlationId === undefined ? {} : { correlationId };
  const eventId = `evt_${events}`;
  const timestamp = "2026-12-01T10:15:00.000Z";
  return { eventId, type: "resource.updated", timestamp, resourceId, changeType: "changed", ...about };
}

/** Takes up to `room` items, then says that it is full. */
export function createReader() {
  const told: TailItem[] = [];
  const failures: unknown[] = [];
  let room = Number.POSITIVE_INFINITY;
  let subscription: Subscription | undefined;
  return {
    told,
    failures,
    subscriber: {
      take(items: readonly TailItem[]) {
        const taken = Math.min(items.length, room);
        told.push(...items.slice(0, taken));
        room -= taken;
        return taken;
      },
      fail: (error: unknown) => void failures.push(error),
    },
    begun(it: Subscription) {
      subscription = it;
    },
    make(places: number) {
      room = places;
      subscription?.resume();
    },
    stop: () => subscription?.stop(),
    ids: () => told.map((item) => (item.kind === "event" ? item.event.eventId : "gap")),
  };
}

export const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Lets everything happen that is on its way. */
export async function settle(): Promise<void> {
  for (let turns = 0; turns < 40; turns += 1) await turn();
}

/** What reading the log gives. */
export async function storyOf(
  engine: Engine,
  owner: string,
  filter: EventFilter,
  after = 0,
): Promise<string[]> {
  const { entries } = await engine.read(owner, filter, after, 10_000);
  return entries.map(({ event }) => event.eventId);
}
