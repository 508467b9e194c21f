/**
 * Kills a server process again and again under load, and looks after each restart whether it kept its word.
 *
 *   spare process (loaded, waiting) ──▶ opens the store ──▶ serves ──▶ kill -9
 *        ▲ the next one                      │ audit            │ starts, events ──▶ ledger (outside the store)
 *        └───────────────────────────────────┴──────────────────┘
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { createSeededRandom } from "tidings/testing";
import { type AuditReport, audit } from "./torture-audit.ts";
import { openLedger } from "./torture-ledger.ts";
import { createClient } from "./torture-load.ts";

const SERVER = fileURLToPath(new URL("./torture-server.ts", import.meta.url));
/** A store is changed for a fresh one after so many kills: each audit reads the whole of it. */
const KILLS_PER_STORE = 25;
const SHORTEST_LIFE_MS = 50;
const LONGEST_LIFE_MS = 200;
/** How long a server may stay silent before it is killed all the same. */
const LONGEST_WAIT_MS = 10_000;
/** How long the last server of a store may take to end every job. */
const PATIENCE_MS = 60_000;

export interface KillOptions {
  readonly kills: number;
  readonly seed: number;
  /** No new store is begun after so long, in milliseconds. Default: no limit. */
  readonly budgetMs?: number;
}

export interface KillReport {
  readonly seed: number;
  readonly kills: number;
  /** Of these, so many before the server served: while it opened the store. */
  readonly killedWhileOpening: number;
  readonly acknowledgedJobs: number;
  readonly seenEvents: number;
  readonly storedEvents: number;
  readonly interruptedAttempts: number;
  readonly repeatedStarts: number;
  readonly audits: number;
  readonly medianLifeMs: number;
  readonly minutes: number;
  /** Empty when nothing was lost, changed, doubled or damaged. */
  readonly problems: readonly string[];
}

export async function tortureByKills({ kills, seed, budgetMs }: KillOptions): Promise<KillReport> {
  const random = createSeededRandom(seed);
  const begunAt = performance.now();
  const lives: number[] = [];
  const problems: string[] = [];
  const sum = { opening: 0, jobs: 0, seen: 0, stored: 0, interrupted: 0, repeated: 0, audits: 0 };
  while (lives.length < kills && problems.length === 0) {
    if (budgetMs !== undefined && performance.now() - begunAt > budgetMs) break;
    await tortureOneStore(Math.min(KILLS_PER_STORE, kills - lives.length));
  }
  const { opening, jobs, seen, stored, interrupted, repeated, audits } = sum;
  return {
    seed,
    kills: lives.length,
    killedWhileOpening: opening,
    acknowledgedJobs: jobs,
    seenEvents: seen,
    storedEvents: stored,
    interruptedAttempts: interrupted,
    repeatedStarts: repeated,
    audits,
    medianLifeMs: Math.round(lives.toSorted((a, b) => a - b)[Math.floor(lives.length / 2)] ?? 0),
    minutes: Math.round((performance.now() - begunAt) / 600) / 100,
    problems,
  };

  async function tortureOneStore(rounds: number): Promise<void> {
    const folder = await mkdtemp(join(tmpdir(), "tidings-torture-"));
    const store = join(folder, "jobs.db");
    const ledger = openLedger(join(folder, "ledger.jsonl"));
    const client = createClient(ledger, random);
    let spare = spawnServer(store);
    const look = async (mustHaveEnded: boolean): Promise<AuditReport> => {
      const report = await audit(store, ledger.read(), { mustHaveEnded });
      sum.audits += 1;
      problems.push(...report.problems);
      return report;
    };
    try {
      for (let round = 0; round < rounds && problems.length === 0; round += 1) {
        const server = spare;
        spare = spawnServer(store);
        await server.loaded;
        lives.push(await liveAndDie(server, round > 0 ? look : undefined));
      }
      await spare.open();
      const url = await spare.url;
      await waitForEnds(url, client, look);
      const report = await look(true);
      const lines = ledger.read();
      sum.jobs += lines.filter(({ kind }) => kind === "job").length;
      sum.seen += lines.filter(({ kind }) => kind === "event").length;
      sum.stored += report.events;
      sum.interrupted += report.interrupted;
      sum.repeated += client.repeated;
      problems.push(...client.faults);
    } finally {
      await spare.kill();
      ledger.close();
      await rm(folder, { recursive: true, force: true });
    }

    /** One life of a server. Returns how long it was. */
    async function liveAndDie(server: Server, check: typeof look | undefined): Promise<number> {
      const lifeMs = SHORTEST_LIFE_MS + random.fraction() * (LONGEST_LIFE_MS - SHORTEST_LIFE_MS);
      // Now and then it dies before it serves: while it opens the store and takes its jobs back.
      if (random.fraction() < 0.1) {
        const openedAt = performance.now();
        await server.open();
        await passed(random.fraction() * SHORTEST_LIFE_MS);
        await server.kill();
        sum.opening += 1;
        return performance.now() - openedAt;
      }
      await server.open();
      const url = await server.url;
      // The server recovered the file; the audit is one more reader and leaves before the kill.
      await check?.(false);
      const openedAt = performance.now();
      const told = ledger.lines;
      const stop = new AbortController();
      const loading = client.load(url, stop.signal);
      await passed(lifeMs);
      // On a busy machine it lives until somebody was told something: a kill before that would prove nothing.
      while (ledger.lines === told && performance.now() - openedAt < LONGEST_WAIT_MS) await passed(10);
      await server.kill();
      stop.abort();
      await loading;
      return performance.now() - openedAt;
    }
  }
}

/** Listens until every job has ended: the client sees the rest of the stories too. */
async function waitForEnds(
  url: string,
  client: { listen(url: string, signal: AbortSignal): Promise<void> },
  look: (mustHaveEnded: boolean) => Promise<AuditReport>,
): Promise<void> {
  const stop = new AbortController();
  const listening = client.listen(url, stop.signal);
  const patienceEndsAt = performance.now() + PATIENCE_MS;
  for (;;) {
    const { ended, jobs } = await look(false);
    if (ended === jobs || performance.now() > patienceEndsAt) break;
    await passed(100);
  }
  stop.abort();
  await listening;
}

interface Server {
  readonly loaded: Promise<void>;
  readonly url: Promise<string>;
  /** Lets it open its store; resolves when it begins to. */
  open(): Promise<void>;
  kill(): Promise<void>;
}

function spawnServer(store: string): Server {
  const args = ["--import", import.meta.resolve("tsx"), "--conditions=@tidings/source", SERVER, store];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  // A server that dies is what this is about: a pipe that breaks with it is no error.
  child.stdin?.on("error", () => undefined);
  const words = { loaded: deferred<void>(), opening: deferred<void>(), url: deferred<string>() };
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
    const word = JSON.parse(line) as { loaded?: true; opening?: true; url?: string };
    if (word.loaded) words.loaded.resolve();
    if (word.opening) words.opening.resolve();
    if (word.url !== undefined) words.url.resolve(word.url);
  });
  void exited.then(([code]) => {
    const gone = new Error(`The server ended with code ${String(code)}.`);
    for (const word of Object.values(words)) word.reject(gone);
  });
  return {
    loaded: words.loaded.promise,
    url: words.url.promise,
    async open() {
      await words.loaded.promise;
      child.stdin?.write("open\n");
      await words.opening.promise;
    },
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

function deferred<T>(): {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
} {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<T>((done, failed) => {
    resolve = done;
    reject = failed;
  });
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}

function passed(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
