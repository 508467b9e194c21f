/** Reads whole stories in tests: the log itself, followed until a condition holds. Nothing here waits for a fixed time. */
import { type CustomEvent, createTidings, type Tidings, type TidingsOptions } from "tidings";
import type { ManualClock } from "tidings/testing";
import { afterEach } from "vitest";

const opened: Tidings[] = [];
afterEach(async () => {
  for (const tidings of opened.splice(0)) await tidings.close({ graceMs: 0 });
});

/** Opens a tidings that is closed after the test. */
export async function open(options: TidingsOptions): Promise<Tidings> {
  const tidings = await createTidings(options);
  opened.push(tidings);
  return tidings;
}

/** Follows one job and returns its events up to the first that `isLast` accepts (default: its ending). */
export async function storyOf(
  tidings: Tidings,
  jobId: string,
  isLast: (event: CustomEvent) => boolean = isEnding,
  owner = "local",
): Promise<CustomEvent[]> {
  const stop = new AbortController();
  const events: CustomEvent[] = [];
  for await (const item of tidings.tail({ owner, jobIds: [jobId], signal: stop.signal })) {
    if (item.kind !== "event") continue;
    const event = item.event as CustomEvent;
    events.push(event);
    if (isLast(event)) stop.abort();
  }
  return events;
}

export function isEnding({ type }: { readonly type: string }): boolean {
  return type === "job.completed" || type === "job.failed" || type === "job.canceled";
}

export function typesOf(events: readonly { readonly type: string }[]): string[] {
  return events.map(({ type }) => type);
}

/** A promise with its hands outside. */
export function signalOf<T = void>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Lets manual time pass, a second at a time, until the promise settles. */
export async function advancing<T>(clock: ManualClock, promise: Promise<T>): Promise<T> {
  let settled = false;
  const watched = promise.finally(() => {
    settled = true;
  });
  while (!settled) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return watched;
}
