/** How long a start takes to be answered, durably, over MCP and HTTP, while 50 callers start one job after the other. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { median, percentile, type Report } from "./report.ts";

const CALLERS = 50;
const STARTS = 40;
/** The first round warms both processes up and is not counted; the medians of the others are. */
const ROUNDS = 6;

export async function benchStarts(report: Report): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tidings-bench-"));
  const server = fork(fileURLToPath(new URL("start-server.ts", import.meta.url)), [
    `sqlite:${join(folder, "jobs.db")}`,
  ]);
  try {
    const [port] = (await once(server, "message")) as [number];
    const url = `http://127.0.0.1:${port}/mcp`;
    const rounds: number[][] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const callers = Array.from({ length: CALLERS }, (_, caller) => call(url, `${round}-${caller}`));
      rounds.push((await Promise.all(callers)).flat());
    }
    const [, ...counted] = rounds;
    const medianOf = (percent: number) => median(counted.map((spent) => percentile(spent, percent)));
    const name = `${CALLERS} callers start jobs over MCP`;
    report(name, "answered, p50", medianOf(50), "ms");
    report(name, "answered, p95", medianOf(95), "ms", { atMost: 50 });
  } finally {
    server.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
}

/** How long each of one caller's starts took, in milliseconds. */
async function call(url: string, caller: string): Promise<number[]> {
  const spent: number[] = [];
  for (let count = 0; count < STARTS; count += 1) {
    const begun = performance.now();
    await start(url, caller, count);
    spent.push(performance.now() - begun);
  }
  return spent;
}

async function start(url: string, caller: string, count: number): Promise<void> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1.0.0" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const args = { names: ["Ann", "Bo"], idempotencyKey: `${caller}-${count}` };
  const params = { name: "start_work", arguments: args, _meta };
  const answer = await fetch(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "tools/call",
      "Mcp-Name": "start_work",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: count, method: "tools/call", params }),
  });
  const text = await answer.text();
  if (!text.includes('"jobId"')) throw new Error(`A start was answered with ${text.slice(0, 300)}`);
}
