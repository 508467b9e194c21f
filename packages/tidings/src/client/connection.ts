/**
 * How a follower stands with its server.
 *
 *   connecting ──opened──▶ live | polling ──finished──▶ ended
 *       ▲  │                     │
 *      due └────────lost─────────┴──▶ reconnecting       refused, from anywhere but ended ──▶ failed
 *       └─────────────────────────────────┘
 */
export type ConnectionState = "connecting" | "live" | "polling" | "reconnecting" | "ended" | "failed";

export type ConnectionInput =
  /** The server answered, and will push. */
  | { readonly type: "pushed" }
  /** The server answers when asked. */
  | { readonly type: "polled" }
  /** Something arrived that shows that the connection works: the backoff starts anew. */
  | { readonly type: "received" }
  /** The connection broke or was idle for too long. `atLeastMs`: the server asked for this much patience. */
  | { readonly type: "lost"; readonly atLeastMs?: number }
  /** The pause is over. */
  | { readonly type: "due" }
  /** The story has been told to its end, or the reader left. */
  | { readonly type: "finished" }
  /** Trying again cannot help. */
  | { readonly type: "refused" };

export interface Connection {
  readonly state: ConnectionState;
  /** Attempts that failed in a row. */
  readonly failures: number;
  /** How long to pause before the next attempt, in milliseconds; only while reconnecting. */
  readonly delayMs?: number;
}

export const BACKOFF = { baseMs: 500, capMs: 30_000 } as const;

/** The longest pause that a server may ask for. */
const PATIENCE_MS = 300_000;

/** For each state and input the state that follows. Inputs that mean nothing in a state leave it alone. */
export const CONNECTION_TRANSITIONS: Readonly<
  Record<ConnectionState, Readonly<Record<ConnectionInput["type"], ConnectionState>>>
> = {
  connecting: {
    pushed: "live",
    polled: "polling",
    received: "connecting",
    lost: "reconnecting",
    due: "connecting",
    finished: "ended",
    refused: "failed",
  },
  live: {
    pushed: "live",
    polled: "polling",
    received: "live",
    lost: "reconnecting",
    due: "live",
    finished: "ended",
    refused: "failed",
  },
  polling: {
    pushed: "live",
    polled: "polling",
    received: "polling",
    lost: "reconnecting",
    due: "polling",
    finished: "ended",
    refused: "failed",
  },
  reconnecting: {
    pushed: "reconnecting",
    polled: "reconnecting",
    received: "reconnecting",
    lost: "reconnecting",
    due: "connecting",
    finished: "ended",
    refused: "failed",
  },
  ended: unchanging("ended"),
  failed: unchanging("failed"),
};

/** Where every follower begins. */
export const CONNECTING: Connection = { state: "connecting", failures: 0 };

/**
 * The connection after an input: the same object when nothing changed. Pauses grow with full jitter: a random time
 * between 0 and twice the last bound, up to half a minute, so that a thousand clients do not come back at once.
 *
 * @param fraction - A random number, 0 ≤ x < 1.
 */
export function advance(connection: Connection, input: ConnectionInput, fraction: number): Connection {
  const state = CONNECTION_TRANSITIONS[connection.state][input.type];
  if (input.type === "lost" && state === "reconnecting" && connection.state !== "reconnecting") {
    const bound = Math.min(BACKOFF.capMs, BACKOFF.baseMs * 2 ** Math.min(connection.failures, 30));
    const asked = Math.min(PATIENCE_MS, Math.max(0, input.atLeastMs ?? 0));
    return { state, failures: connection.failures + 1, delayMs: Math.round(asked + fraction * bound) };
  }
  const isUp = state === "live" || state === "polling";
  const failures = isUp && input.type === "received" ? 0 : connection.failures;
  if (state === connection.state && failures === connection.failures) return connection;
  return { state, failures };
}

function unchanging(state: ConnectionState): Record<ConnectionInput["type"], ConnectionState> {
  return {
    pushed: state,
    polled: state,
    received: state,
    lost: state,
    due: state,
    finished: state,
    refused: state,
  };
}
