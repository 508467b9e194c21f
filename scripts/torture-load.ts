/** A client that starts jobs and listens, and writes down whatever it is told, until the server is gone. */
import type { Random } from "tidings";
import type { Ledger, Sighting } from "./torture-ledger.ts";

const STARTERS = 4;
/** The server keeps a limit on jobs that wait; the load stays far below it. */
const LARGEST_STEPS = 12;
const REVISION = "2026-07-28";
const ENVELOPE = {
  "io.modelcontextprotocol/protocolVersion": REVISION,
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "torture", version: "1.0.0" },
};

/** A start that was sent; without an answer nobody knows whether there is a job. */
interface Order {
  readonly key: string;
  readonly steps: number;
}

export interface Client {
  /** Loads the server until the signal aborts. Resolves when nothing of it runs any more. */
  load(url: string, signal: AbortSignal): Promise<void>;
  /** Listens only. */
  listen(url: string, signal: AbortSignal): Promise<void>;
  /** Starts that were sent again after a server died before it answered. */
  readonly repeated: number;
  /** Answers that were no answers although the server lived: each is a fault of the server. */
  readonly faults: readonly string[];
}

export function createClient(ledger: Ledger, random: Random): Client {
  let lastKey = 0;
  let repeated = 0;
  let cursor: string | undefined;
  const unanswered: Order[] = [];
  const faults: string[] = [];

  function nextOrder(): Order {
    const order = unanswered.shift();
    if (order !== undefined) {
      repeated += 1;
      return order;
    }
    lastKey += 1;
    return { key: `order-${lastKey}`, steps: 1 + Math.floor(random.fraction() * LARGEST_STEPS) };
  }

  async function startJobs(url: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const order = nextOrder();
      try {
        const jobId = await start(url, order, signal);
        ledger.add([{ kind: "job", jobId, ...order }]);
      } catch (error) {
        unanswered.push(order);
        if (error instanceof Refusal) faults.push(error.message);
        // The connection broke: the server is dying, and the signal will say so.
        else return;
      }
    }
  }

  async function listen(url: string, signal: AbortSignal): Promise<void> {
    const after = cursor === undefined ? "" : `?after=${cursor}`;
    const response = await fetch(`${url}/events${after}`, { signal });
    if (!response.ok) {
      faults.push(`GET /events${after} → ${response.status} ${await response.text()}`);
      return;
    }
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of response.body ?? []) {
      const frames = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
      rest = frames.pop() ?? "";
      const seen = frames.flatMap(readFrame);
      ledger.add(seen);
      cursor = seen.at(-1)?.cursor ?? cursor;
    }
  }

  const untilGone = async (work: Promise<void>, signal: AbortSignal): Promise<void> => {
    await work.catch((error: unknown) => {
      if (!signal.aborted && !(error instanceof TypeError)) throw error;
    });
  };

  return {
    async load(url, signal) {
      const starting = Array.from({ length: STARTERS }, () => startJobs(url, signal));
      await Promise.all([untilGone(listen(url, signal), signal), ...starting]);
    },
    listen: (url, signal) => untilGone(listen(url, signal), signal),
    get repeated() {
      return repeated;
    },
    faults,
  };
}

/** The server answered, but not as it should. */
class Refusal extends Error {}

async function start(url: string, { key, steps }: Order, signal: AbortSignal): Promise<string> {
  const name = "start_work";
  const args = { name: key, steps, idempotencyKey: key };
  const response = await fetch(`${url}/mcp`, {
    method: "POST",
    signal,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": REVISION,
      "mcp-method": "tools/call",
      "mcp-name": name,
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { _meta: ENVELOPE, name, arguments: args },
    }),
  });
  const text = await response.text();
  const jobId = /"jobId":"([^"]+)"/.exec(text)?.[1];
  if (jobId === undefined) throw new Refusal(`start ${key} → ${response.status} ${text.slice(0, 500)}`);
  return jobId;
}

function readFrame(frame: string): Sighting[] {
  const field = (name: string): string | undefined =>
    frame
      .split("\n")
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2);
  const data = field("data");
  const cursor = field("id");
  if (data === undefined || cursor === undefined || field("event") === "snapshot") return [];
  return [{ kind: "event", cursor, event: JSON.parse(data) as Sighting["event"] }];
}
