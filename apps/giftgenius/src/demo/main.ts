/**
 * `npm run demo`: a stranger's first minute. Starts the server, uploads a file of employees, starts the tool through the
 * official MCP client, shows the events as they come and the gifts at the end.
 *
 *   --kill        kills the server (SIGKILL) in the middle of matching, starts it again, and proves the story whole
 *   --rows N      how many employees (default: the example file of 2,000; with --kill 120,000)
 */
import { spawnSync } from "node:child_process";
import { createReadStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { TidingsEvent } from "tidings";
import { follow } from "tidings/client";
import { mcpSource } from "tidings/mcp/client";
import { createProgressBar } from "./progress-bar.ts";
import { printReport, proveWhole } from "./proof.ts";
import { createRestartable } from "./restartable.ts";
import { printRecommendations } from "./results-table.ts";
import { RUN_ARGS, startServer } from "./server-process.ts";

const EXAMPLE = fileURLToPath(new URL("../../examples/employees-2000.csv", import.meta.url));
const MAKER = fileURLToPath(new URL("../../examples/make-employees.ts", import.meta.url));
/** Large enough that matching takes a moment on a fast machine. */
const ROWS_TO_KILL = 120_000;

const { values } = parseArgs({
  options: { kill: { type: "boolean", default: false }, rows: { type: "string" } },
});

async function main(): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), "giftgenius-demo-"));
  const store = `sqlite:${join(folder, "giftgenius.db")}`;
  const matchLog = join(folder, "matches.log");
  const env = { TIDINGS_STORE: store, GIFTGENIUS_MATCH_LOG: values.kill ? matchLog : "" };
  const bar = createProgressBar(process.stdout);
  const first = await startServer({ ...env, PORT: process.env.PORT ?? "3000" }).catch(() =>
    startServer({ ...env, PORT: "0" }),
  );
  const { url, pid } = first;
  const server = createRestartable(first, () => startServer({ ...env, PORT: new URL(url).port }));
  const leave = async (): Promise<void> => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  // Whoever ends the demonstration ends its server too.
  for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"] as const) {
    process.once(signal, () => void leave().finally(() => process.exit(signal === "SIGINT" ? 0 : 1)));
  }
  try {
    bar.note(`The server runs at ${url} (process ${pid}), its store is ${store}`);
    const file = fileToUse(folder);
    const uploadId = await upload(url, file);
    bar.note(`Uploaded ${(await stat(file)).size} bytes as ${uploadId}`);

    const client = await connect(url);
    const answer = await client.callTool({
      name: "start_bulk_gift_analysis",
      arguments: { uploadId, defaultBudget: 49.9, correlationId: "demo" },
    });
    if (answer.isError) throw new Error(JSON.stringify(answer.structuredContent));
    const { jobId, cursor } = answer.structuredContent as { jobId: string; cursor: string };
    bar.note(`start_bulk_gift_analysis answered with ${jobId}; its events over MCP:\n`);

    const events: TidingsEvent[] = [];
    let killed = false;
    const story = follow({ source: mcpSource(client), jobId, after: cursor });
    for await (const event of story) {
      events.push(event as TidingsEvent);
      bar.show(event as TidingsEvent);
      if (values.kill && !killed && isHalfWay(event as TidingsEvent)) {
        killed = true;
        server.killAndRestart(bar.note);
      }
    }
    await server.restarted();
    bar.note("");
    const complete = story.job?.status === "completed";
    if (complete) await printRecommendations(client, jobId, bar.note);
    const stays = process.stdout.isTTY && !values.kill;
    bar.note(
      `The page of this job: ${url}/#job=${jobId}${stays ? "" : " (npm start serves it; this server ends now)"}`,
    );
    let whole = complete;
    if (values.kill && complete) {
      const proof = await proveWhole({
        client,
        jobId,
        seen: events,
        matchLog,
        killed,
      });
      whole = printReport(proof, bar.note);
    }
    await client.close();
    if (stays) await untilInterrupted(bar.note);
    return whole ? 0 : 1;
  } finally {
    await leave();
  }
}

function fileToUse(folder: string): string {
  const rows = values.rows === undefined ? (values.kill ? ROWS_TO_KILL : undefined) : Number(values.rows);
  if (rows === undefined) return EXAMPLE;
  if (!Number.isInteger(rows) || rows < 1)
    throw new Error(`--rows is "${values.rows}", but must be a whole number from 1.`);
  const file = join(folder, "employees.csv");
  const made = spawnSync(process.execPath, [...RUN_ARGS, MAKER, "--rows", String(rows), "--out", file], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (made.status !== 0) throw new Error("The file of employees could not be made.");
  return file;
}

async function upload(url: string, file: string): Promise<string> {
  const response = await fetch(`${url}/uploads`, {
    method: "POST",
    headers: { "content-type": "text/csv" },
    body: createReadStream(file) as unknown as BodyInit,
    duplex: "half",
  } as RequestInit);
  const body = (await response.json()) as { uploadId: string; error?: { message: string } };
  if (response.status !== 201) throw new Error(`The upload was refused: ${body.error?.message}`);
  return body.uploadId;
}

async function connect(url: string): Promise<Client> {
  const client = new Client(
    { name: "giftgenius-demo", version: "0.1.0" },
    { versionNegotiation: { mode: "auto" } },
  );
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  return client;
}

/** The first report of matching between its ends. */
function isHalfWay(event: TidingsEvent): boolean {
  const { type, stageKey, percentage } = event as { type: string; stageKey?: string; percentage?: number };
  return (
    type === "job.progress" &&
    stageKey === "match" &&
    percentage !== undefined &&
    percentage > 40 &&
    percentage < 70
  );
}

/** Never: the signal ends the demonstration. */
function untilInterrupted(note: (line: string) => void): Promise<never> {
  note("The server keeps running for you; press Ctrl+C to stop it.");
  return new Promise(() => undefined);
}

main().then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    process.stderr.write(
      `The demonstration did not work: ${error instanceof Error ? error.message : String(error)}\n`,
    );
    process.exitCode = 1;
  },
);
