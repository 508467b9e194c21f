/** How long a start takes to be answered, durably, over MCP and HTTP, while 50 callers start one job after the other. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { percentile, type Report } from "./report.ts";

const CALLERS = 50;
const STARTS = 40;
const WARM_UP = 10;

export async function benchStarts(report: Report): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tidings-bench-"));
  const server = fork(fileURLToPath(new URL("start-server.ts", import.meta.url)), [
    `sqlite:${join(folder, "jobs.db")}`,
  ]);
  try {
    const [port] = (await once(server, "message")) as [number];
    const spent: number[] = [];
    const call = async (caller: number) => {
      for (let count = 0; count < WARM_UP + STARTS; count += 1) {
        const begun = performance.now();
        await start(`http://127.0.0.1:${port}/mcp`, caller, count);
        if (count >= WARM_UP) spent.push(performance.now() - begun);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));
    const name = `${CALLERS} callers start jobs over MCP`;
    report(name, "answered, p50", percentile(spent, 50), "ms");
    report(name, "answered, p95", percentile(spent, 95), "ms", { atMost: 50 });
  } finally {
    server.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
}

async function start(url: string, caller: number, count: number): Promise<void> {
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
