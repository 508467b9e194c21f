/** Malformed HTTP over raw sockets against a GiftGenius process: it must neither fall over nor call it its own fault. */
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { createSeededRandom } from "tidings/testing";
import { createGenerator, type Known } from "./torture-generate.ts";
import { isOwnFault, startVictim, type Victim } from "./torture-giftgenius.ts";

const CONNECTIONS = 24;
/** After so long without a word the client hangs up its half: requests that lack something end then. */
const QUIET_MS = 250;
/** How long the server may take to hang up as well. */
const PATIENCE_MS = 20_000;
const PROBE_EVERY = 2_000;
const CSV = "email,interests,budget\na@example.com,chess,30\nb@example.com,jazz,40\n";

export interface FuzzOptions {
  readonly messages: number;
  readonly seed: number;
}

export interface FuzzReport {
  readonly seed: number;
  readonly messages: number;
  /** How often each answer was given; `none` = the connection was closed without one. */
  readonly answers: Readonly<Record<string, number>>;
  /** Lines on stderr, by what they were about. */
  readonly complaints: Readonly<Record<string, number>>;
  readonly memoryMb: readonly (number | undefined)[];
  readonly exitCode: number | null;
  readonly seconds: number;
  /** Crashes, 5xx, faults on stderr, silence; each with the bytes that caused it where they are known. */
  readonly problems: readonly string[];
}

export async function fuzzHttp({ messages, seed }: FuzzOptions): Promise<FuzzReport> {
  const begunAt = performance.now();
  const victim = await startVictim([]);
  const problems: string[] = [];
  const answers: Record<string, number> = {};
  const memoryMb: (number | undefined)[] = [];
  let exitCode: number | null = null;
  try {
    const url = await addressOf(victim);
    const port = Number(new URL(url).port);
    const generator = createGenerator(createSeededRandom(seed), await prepare(url));
    let sent = 0;
    const attack = async (): Promise<void> => {
      while (sent < messages && victim.alive && problems.length < 20) {
        sent += 1;
        if (sent % PROBE_EVERY === 0) {
          memoryMb.push(victim.memoryMb());
          problems.push(...(await probe(url)));
        }
        const bytes = generator.http();
        const answer = await send(port, bytes);
        const status = /^HTTP\/1\.1 (\d{3})/.exec(answer.text)?.[1] ?? (answer.hung ? "hung" : "none");
        answers[status] = (answers[status] ?? 0) + 1;
        if (answer.hung) problems.push(`no end of the answer within ${PATIENCE_MS / 1000} s: ${show(bytes)}`);
        if (/^HTTP\/1\.1 5/m.test(answer.text) || isOwnFault(answer.text))
          problems.push(`${show(bytes)} → ${answer.text.slice(0, 600)}`);
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, attack));
    problems.push(...(await probe(url)), ...(await wholeJob(url)));
  } finally {
    if (!victim.alive)
      problems.push(`the server ended with code ${victim.child.exitCode}, ${victim.child.signalCode}`);
    exitCode = await victim.stop();
  }
  problems.push(...victim.faults);
  const { complaints } = victim;
  const seconds = Math.round((performance.now() - begunAt) / 100) / 10;
  return { seed, messages, answers, complaints, memoryMb, exitCode, seconds, problems };
}

function addressOf(victim: Victim): Promise<string> {
  return new Promise((resolve, reject) => {
    createInterface({ input: victim.child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      const url = /GiftGenius is at (http:\/\/[^/]+)\//.exec(line)?.[1];
      if (url !== undefined) resolve(url);
    });
    victim.child.once("exit", (code) => reject(new Error(`GiftGenius did not start: code ${code}.`)));
  });
}

/** Something real to damage: a job, a cursor and a session. */
async function prepare(url: string): Promise<Known> {
  const initialize = {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "fuzz", version: "1" },
  };
  const session = await post(url, { jsonrpc: "2.0", id: 0, method: "initialize", params: initialize });
  const sessionId = session.headers.get("mcp-session-id") ?? undefined;
  await session.text();
  const started = await startJob(url);
  return { ...started, ...(sessionId === undefined ? {} : { sessionId }) };
}

async function startJob(url: string): Promise<{ readonly jobId: string; readonly cursor: string }> {
  const name = "start_bulk_gift_analysis";
  const answer = await post(
    url,
    { jsonrpc: "2.0", id: 1, method: "tools/call", params: { _meta: META, name, arguments: { csv: CSV } } },
    { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name },
  );
  const text = await answer.text();
  const jobId = /"jobId":"([^"]+)"/.exec(text)?.[1];
  const cursor = /"cursor":"([^"]+)"/.exec(text)?.[1];
  if (jobId === undefined || cursor === undefined)
    throw new Error(`No job was started: ${text.slice(0, 500)}`);
  return { jobId, cursor };
}

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "fuzz", version: "1.0.0" },
};

function post(url: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch(`${url}/mcp`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
    },
    body: JSON.stringify(body),
  });
}

/** Is it still there for honest clients? */
async function probe(url: string): Promise<string[]> {
  try {
    const health = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(10_000) });
    await health.text();
    return health.status === 200 ? [] : [`GET /healthz → ${health.status}`];
  } catch (error) {
    return [`GET /healthz → ${String(error)}`];
  }
}

/** A whole story, from the start to the result. */
async function wholeJob(url: string): Promise<string[]> {
  try {
    const { jobId } = await startJob(url);
    const ask = () => fetch(`${url}/jobs/${jobId}/events`, { signal: AbortSignal.timeout(30_000) });
    let story = await ask();
    // The attack has used up what its owner may ask; that passes.
    while (story.status === 429) {
      await pause(Number(story.headers.get("retry-after")) * 1_000);
      story = await ask();
    }
    return (await story.text()).includes("event: job.completed")
      ? []
      : [`job ${jobId} did not complete afterwards`];
  } catch (error) {
    return [`no job can be run afterwards: ${String(error)}`];
  }
}

/** Sends the bytes and collects the answer, to its end or to the begin of a stream. */
function send(port: number, bytes: Buffer): Promise<{ readonly text: string; readonly hung: boolean }> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    let hung = false;
    let quiet = setTimeout(hangUp, QUIET_MS);
    const patience = setTimeout(() => {
      hung = true;
      socket.destroy();
    }, PATIENCE_MS);
    function hangUp(): void {
      socket.end();
    }
    socket.on("data", (chunk: Buffer) => {
      if (text.length < 100_000) text += chunk.toString("latin1");
      clearTimeout(quiet);
      quiet = setTimeout(hangUp, QUIET_MS);
      // A stream has no end: that it was opened is all there is to see.
      if (/^HTTP\/1\.1 200.*?content-type: text\/event-stream.*?\r\n\r\n/is.test(text)) socket.destroy();
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearTimeout(quiet);
      clearTimeout(patience);
      resolve({ text, hung });
    });
    socket.write(bytes);
  });
}

function show(bytes: Buffer): string {
  return JSON.stringify(bytes.subarray(0, 1_200).toString("latin1"));
}
