/** Malformed lines on the stdin of GiftGenius processes, before any handshake and within both generations. */
import { once } from "node:events";
import { createInterface } from "node:readline";
import { createSeededRandom } from "tidings/testing";
import type { FuzzOptions } from "./torture-fuzz-http.ts";
import { createGenerator } from "./torture-generate.ts";
import { isOwnFault, startVictim, type Victim } from "./torture-giftgenius.ts";

const PROBE_EVERY = 250;
const PATIENCE_MS = 30_000;
const NEWLINE = Buffer.from("\n");

const GREETINGS = ["none", "2025-11-25", "2026-07-28"] as const;
type Greeting = (typeof GREETINGS)[number];

export interface StdioFuzzReport {
  readonly seed: number;
  readonly messages: number;
  readonly answers: Readonly<Record<string, number>>;
  readonly complaints: Readonly<Record<string, number>>;
  readonly memoryMb: readonly (number | undefined)[];
  readonly exitCodes: readonly (number | null)[];
  readonly seconds: number;
  readonly problems: readonly string[];
}

/** A third of the messages goes to a process that nobody greeted, a third to each generation. */
export async function fuzzStdio({ messages, seed }: FuzzOptions): Promise<StdioFuzzReport> {
  const begunAt = performance.now();
  const answers: Record<string, number> = {};
  const complaints: Record<string, number> = {};
  const memoryMb: (number | undefined)[] = [];
  const exitCodes: (number | null)[] = [];
  const problems: string[] = [];
  for (const [index, greeting] of GREETINGS.entries()) {
    const victim = await startVictim(["--stdio"]);
    const peer = createPeer(victim, answers, problems);
    await attack(peer, victim, greeting, Math.ceil(messages / GREETINGS.length), seed + index).catch(
      (error: unknown) => problems.push(`greeted by ${greeting}: ${String(error)}`),
    );
    memoryMb.push(victim.memoryMb());
    if (!victim.alive) problems.push(`greeted by ${greeting}: it ended with code ${victim.child.exitCode}`);
    exitCodes.push(await victim.stop());
    problems.push(...victim.faults);
    for (const [about, count] of Object.entries(victim.complaints))
      complaints[about] = (complaints[about] ?? 0) + count;
  }
  const seconds = Math.round((performance.now() - begunAt) / 100) / 10;
  return { seed, messages, answers, complaints, memoryMb, exitCodes, seconds, problems };
}

interface Peer {
  write(bytes: Buffer): Promise<void>;
  /** A request with an id that no generated message has; its answer. */
  request(method: string, params: object): Promise<Record<string, unknown>>;
}

async function attack(
  peer: Peer,
  victim: Victim,
  greeting: Greeting,
  messages: number,
  seed: number,
): Promise<void> {
  const modern = greeting === "2026-07-28";
  const params = modern ? { _meta: META } : {};
  if (greeting === "2025-11-25") {
    await peer.request("initialize", INITIALIZE);
    await peer.write(Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}\n'));
  }
  if (modern) await peer.request("tools/list", params);
  const known = { jobId: "bulk_AAAAAAAAAAAAAAAAAAAAAA", cursor: "AAAAAAAAAAAAAAAAAAAAAA" };
  const generator = createGenerator(createSeededRandom(seed), known);
  for (let sent = 1; sent <= messages; sent += 1) {
    if (!victim.alive) return;
    await peer.write(Buffer.concat([generator.stdio(), NEWLINE]));
    // Any answer will do where no generation was agreed on: an error is one too.
    if (sent % PROBE_EVERY === 0 || sent === messages) {
      const answer = await peer.request("tools/list", params);
      if (greeting !== "none" && answer.result === undefined)
        throw new Error(`tools/list after ${sent} messages → ${JSON.stringify(answer).slice(0, 500)}`);
    }
  }
}

function createPeer(victim: Victim, answers: Record<string, number>, problems: string[]): Peer {
  const { stdin, stdout } = victim.child;
  const waiting = new Map<unknown, (message: Record<string, unknown>) => void>();
  let lastId = 0;
  createInterface({ input: stdout as NodeJS.ReadableStream, crlfDelay: Number.POSITIVE_INFINITY }).on(
    "line",
    (line) => {
      const message = parse(line);
      if (message?.jsonrpc !== "2.0") {
        if (problems.length < 20) problems.push(`on stdout stands no JSON-RPC: ${line.slice(0, 300)}`);
        return;
      }
      const { code } = (message.error as { code?: number } | undefined) ?? {};
      const kind = code === undefined ? ("result" in message ? "result" : "notification") : String(code);
      answers[kind] = (answers[kind] ?? 0) + 1;
      if (isOwnFault(line) && problems.length < 20)
        problems.push(`a request was answered as a fault of the server: ${line.slice(0, 500)}`);
      waiting.get(message.id)?.(message);
      waiting.delete(message.id);
    },
  );
  return {
    async write(bytes) {
      if (stdin?.write(bytes) !== false || stdin.destroyed) return;
      const stop = new AbortController();
      const { signal } = stop;
      // An end of the process is noticed by whoever waits for an answer.
      await Promise.race([once(stdin, "drain", { signal }), once(stdin, "close", { signal })]).catch(
        () => undefined,
      );
      stop.abort();
    },
    request(method, params) {
      lastId += 1;
      const id = `probe-${lastId}`;
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`${method} (${id}) was not answered`)), PATIENCE_MS);
        waiting.set(id, (message) => {
          clearTimeout(timer);
          resolve(message);
        });
        victim.child.once("exit", (exit) => reject(new Error(`it ended with code ${exit}`)));
        stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
      });
    },
  };
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

const INITIALIZE = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "fuzz", version: "1" },
};
const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "fuzz", version: "1.0.0" },
};
