/**
 * The SDK's `ServerEventBus` over the log, so that all processes on one store hear each other.
 *
 *   publish ──▶ log ──▶ every process' one reader ──▶ its listeners
 */
import type { ServerEvent, ServerEventBus } from "@modelcontextprotocol/server";
import { systemClock } from "../../engine/system-clock.ts";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { CustomDraft } from "../../model/event.ts";
import { printError } from "../../runtime/print-error.ts";
import type { Subscription, TailItem, Tidings } from "../../runtime/tidings.ts";

/** How a bus uses the log. */
export interface ServerEventBusOptions {
  /**
   * The owner whose log carries what is published. Default `["dev.tidings","bus"]`, which is nobody's name: with an
   * `owner` function of your own, make sure that it never returns it.
   */
  readonly owner?: string;
  /** Hears of what could not be published or read, and of listeners that throw. Default: one JSON line on stderr. */
  readonly onError?: (error: unknown, during: string) => void;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

/** A bus that ends. */
export interface DurableServerEventBus extends ServerEventBus {
  /** Stops listening; what was published still reaches the log. */
  close(): void;
}

const BUS_OWNER = JSON.stringify(["dev.tidings", "bus"]);
const CHANGE_TYPE = "mcp.change";
const READ_AGAIN_MS = 1_000;
const KINDS: ReadonlySet<unknown> = new Set<ServerEvent["kind"]>([
  "tools_list_changed",
  "prompts_list_changed",
  "resources_list_changed",
  "resource_updated",
]);

/**
 * Opens a bus for `createHttpHandler({ bus })` or the SDK's `createMcpHandler(factory, { bus })`. What any process
 * publishes, the listeners of every process hear, in one order, from the moment this resolves; they hear it once it
 * stands in the log, never inside `publish`. Like every bus it knows no owners: what is private goes through
 * `tidings.publish`. Ends by itself with `tidings.close()`.
 */
export async function createServerEventBus(
  tidings: Tidings,
  { owner = BUS_OWNER, onError = printError, clock = systemClock }: ServerEventBusOptions = {},
): Promise<DurableServerEventBus> {
  const listeners = new Set<{ readonly call: (event: ServerEvent) => void }>();
  let writing: Promise<unknown> = Promise.resolve();
  let after = await tidings.head(owner);
  let subscription: Subscription | undefined;
  let cancelRetry = () => {};
  let isClosed = false;

  function tell(item: TailItem): void {
    after = item.cursor;
    const event = item.kind === "event" ? changeIn(item.event) : undefined;
    if (event === undefined) return;
    for (const listener of [...listeners]) {
      if (!listeners.has(listener)) continue;
      try {
        listener.call(event);
      } catch (error) {
        onError(error, "a listener of the event bus");
      }
    }
  }

  async function listen(): Promise<void> {
    try {
      subscription = await tidings.subscribe(
        { owner, after },
        {
          take(items) {
            if (!isClosed) for (const item of items) tell(item);
            return items.length;
          },
          fail: listenAgain,
        },
      );
      if (isClosed) subscription.stop();
    } catch (error) {
      listenAgain(error);
    }
  }

  function listenAgain(error: unknown): void {
    if (isClosed || isStop(error)) return;
    onError(error, "reading the event bus");
    cancelRetry = clock.after(READ_AGAIN_MS, () => void listen());
  }

  await listen();

  return {
    publish(event) {
      const draft: CustomDraft = { type: CHANGE_TYPE, "~custom": true, change: event };
      // One after the other: not awaited, they must not overtake each other.
      writing = writing
        .then(() => tidings.publish(draft, { owner, source: "mcp" }))
        .catch((error: unknown) => {
          if (!isStop(error)) onError(error, "publishing on the event bus");
        });
    },
    subscribe(call) {
      const listener = { call };
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    close() {
      isClosed = true;
      cancelRetry();
      subscription?.stop();
      listeners.clear();
    },
  };
}

/** A change that this version knows; another one on the same store may write more. */
function changeIn(event: Readonly<Record<string, unknown>>): ServerEvent | undefined {
  const change = event.type === CHANGE_TYPE ? event.change : undefined;
  const isKnown = typeof change === "object" && change !== null && KINDS.has((change as ServerEvent).kind);
  return isKnown ? (change as ServerEvent) : undefined;
}

function isStop(error: unknown): boolean {
  return error instanceof TidingsError && error.code === "STORE_CLOSED";
}
