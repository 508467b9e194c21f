/** `tidings doctor`: is this store, or this server, well? Each finding says what to do. */
import { existsSync } from "node:fs";
import { stat, statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { loadDatabase } from "../engine/sqlite/driver.ts";
import { toStoreError } from "../engine/sqlite/fault.ts";
import { currentVersion, readVersion } from "../engine/sqlite/open.ts";
import { systemClock } from "../engine/system-clock.ts";
import { TidingsError } from "../model/error.ts";
import { type Arguments, type Command, DONE, FAILED, TARGET_OPTIONS, textOf } from "./command.ts";
import { toInert } from "./inert.ts";
import type { Io } from "./io.ts";
import { openTarget, storeOf } from "./open-target.ts";
import { isJson, paint, sizeOf, spanOf, writeJson } from "./print.ts";
import { readUrl } from "./server.ts";

type Level = "ok" | "warning" | "problem";

interface Finding {
  readonly level: Level;
  readonly about: string;
  /** What was seen. */
  readonly message: string;
  /** What to do. */
  readonly hint?: string;
}

const SLOW_JOB_MS = 3_600_000;
const SKEW_MS = 5_000;
const FIRST_BYTE_MS = 5_000;

export const doctor: Command = {
  summary: "say whether a store or a server is well, and what to do where it is not",
  usage: "--store STORE | --url URL",
  takesJob: "never",
  options: TARGET_OPTIONS,
  async run(args, io) {
    const findings: Finding[] = [ofNode()];
    const say = (finding: Finding): void => void findings.push(finding);
    if (textOf(args, "url") === undefined) await lookAtStore(args, io, say);
    else await lookAtServer(args, io, say);
    for (const finding of findings) print(io, isJson(args, io), finding);
    return findings.some(({ level }) => level === "problem") ? FAILED : DONE;
  },
};

function print(io: Io, asJson: boolean, finding: Finding): void {
  if (asJson) {
    writeJson(io, finding);
    return;
  }
  const { level, about, message, hint } = finding;
  const colour = level === "ok" ? "green" : level === "warning" ? "yellow" : "red";
  io.write(
    `${paint(io, colour, level.padEnd(7))}  ${about}: ${toInert(hint === undefined ? message : `${message} ${hint}`, 1_000)}\n`,
  );
}

function ofNode(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const fits = (major === 20 && minor >= 19) || (major === 22 && minor >= 13) || major >= 24;
  const message = `Node ${process.versions.node}.`;
  return fits
    ? { level: "ok", about: "node", message }
    : { level: "problem", about: "node", message, hint: "Use 20.19, 22.13, 24 or later." };
}

async function lookAtStore(args: Arguments, io: Io, say: (finding: Finding) => void): Promise<void> {
  const store = storeOf(args, io);
  const path = resolve(store.replace(/^sqlite:/, ""));
  // Opening it says what is wrong with the name.
  if (!store.startsWith("sqlite:") || !existsSync(path)) return (await openTarget(args, io)).close();
  try {
    await lookAtFile(path, say);
  } catch (error) {
    throw toStoreError(error, path, "so it could not be looked at");
  }
}

/** Reads the tables of all owners, which the port of engines never does, and of a store of any version. */
async function lookAtFile(path: string, say: (finding: Finding) => void): Promise<void> {
  const DatabaseSync = await loadDatabase();
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const version = readVersion(database);
    if (version === undefined) return say(NO_STORE);
    const one = (sql: string): Record<string, unknown> => database.prepare(sql).get() ?? {};
    const integrity = Object.values(one("PRAGMA integrity_check"))[0];
    say(
      integrity === "ok"
        ? { level: "ok", about: "integrity", message: "The file is whole." }
        : {
            level: "problem",
            about: "integrity",
            message: `The file is damaged: ${String(integrity)}.`,
            hint: "Stop the server, keep a copy, and restore a backup.",
          },
    );
    say(ofVersion(version));
    const mode = one("PRAGMA journal_mode").journal_mode;
    say(
      mode === "wal"
        ? { level: "ok", about: "journal", message: "A write-ahead log." }
        : {
            level: "problem",
            about: "journal",
            message: `The journal mode is ${String(mode)}, not wal.`,
            hint: "Open the store once with a Tidings server.",
          },
    );
    await lookAtSize(path, one, say);
    lookAtJobs(one, say);
  } finally {
    database.close();
  }
}

const NO_STORE: Finding = {
  level: "problem",
  about: "schema",
  message: "The file is a database, but no store of Tidings.",
  hint: "Check the path; it is relative to the current folder.",
};

function ofVersion(version: number): Finding {
  const current = currentVersion();
  if (version === current) return { level: "ok", about: "schema", message: `Version ${version}.` };
  const message = `The store has version ${version}, and this program ${current}.`;
  return version < current
    ? {
        level: "warning",
        about: "schema",
        message,
        hint: "A server of this version brings it up to date when it starts; until then only doctor reads it.",
      }
    : { level: "problem", about: "schema", message, hint: "Update the program." };
}

async function lookAtSize(
  path: string,
  one: (sql: string) => Record<string, unknown>,
  say: (finding: Finding) => void,
): Promise<void> {
  const bytes = Number(one("PRAGMA page_count").page_count) * Number(one("PRAGMA page_size").page_size);
  const wal = await stat(`${path}-wal`).then(
    ({ size }) => size,
    () => 0,
  );
  say({ level: "ok", about: "size", message: `${sizeOf(bytes)}, and ${sizeOf(wal)} of write-ahead log.` });
  if (wal > 256 * 1_024 ** 2) {
    say({
      level: "warning",
      about: "write-ahead log",
      message: `It has grown to ${sizeOf(wal)}.`,
      hint: "Some program keeps a read transaction open; find and stop it.",
    });
  }
  const { bavail, bsize } = await statfs(dirname(path));
  const free = bavail * bsize;
  const message = `${sizeOf(free)} are free.`;
  if (free < Math.max(64 * 1_024 ** 2, bytes / 10)) {
    say({ level: "problem", about: "disk", message, hint: "Make room, or run tidings prune --max-bytes." });
  } else say({ level: "ok", about: "disk", message });
}

function lookAtJobs(one: (sql: string) => Record<string, unknown>, say: (finding: Finding) => void): void {
  const { waiting, running, failed } = one(
    `SELECT coalesce(sum(status = 'pending'), 0) AS waiting, coalesce(sum(status = 'running'), 0) AS running,
     coalesce(sum(status = 'failed'), 0) AS failed FROM tidings_job`,
  );
  say({ level: "ok", about: "jobs", message: `${waiting} waiting, ${running} running, ${failed} failed.` });
  const oldest = one(
    `SELECT job_id, json_extract(job, '$.createdAt') AS since FROM tidings_job
     WHERE status IN ('pending', 'running') ORDER BY birth LIMIT 1`,
  );
  const age = oldest.since === undefined ? 0 : systemClock.now() - Date.parse(String(oldest.since));
  if (age > SLOW_JOB_MS) {
    say({
      level: "warning",
      about: "oldest job",
      message: `${String(oldest.job_id)} was started ${spanOf(age)} ago and has not ended.`,
      hint: "tidings inspect says more; is a worker running that knows its type?",
    });
  }
  const now = systemClock.monotonic();
  const { lost } = one(
    `SELECT count(*) AS lost FROM tidings_job WHERE status = 'running' AND (until <= ${now} OR set_at > ${now})`,
  );
  if (Number(lost) > 0) {
    say({
      level: "warning",
      about: "leases",
      message: `${lost} running jobs have no worker any more.`,
      hint: "They are taken up again as soon as a worker runs.",
    });
  }
  const { poison } = one(
    `SELECT count(*) AS poison FROM tidings_job WHERE status IN ('pending', 'running')
     AND json_extract(job, '$.failures') >= max_attempts - 1 AND max_attempts > 1`,
  );
  if (Number(poison) > 0) {
    say({
      level: "warning",
      about: "last attempts",
      message: `${poison} jobs are on their last attempt.`,
      hint: "tidings inspect --status running shows why the ones before it failed.",
    });
  }
}

async function lookAtServer(args: Arguments, io: Io, say: (finding: Finding) => void): Promise<void> {
  const url = readUrl(textOf(args, "url") ?? "");
  const token = textOf(args, "token") ?? io.env.TIDINGS_TOKEN;
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  try {
    const target = await openTarget(args, io);
    try {
      const jobs = await target.list({ limit: 1 });
      say({
        level: "ok",
        about: "mcp",
        message: `${url} answers, and shows ${jobs.length === 0 ? "no jobs" : "jobs"}.`,
      });
    } finally {
      await target.close();
    }
  } catch (error) {
    const { message, hint } =
      error instanceof TidingsError ? error : { message: String(error), hint: undefined };
    say({ level: "problem", about: "mcp", message, ...(hint === undefined ? {} : { hint }) });
    return;
  }
  await lookAtSessions(url, headers, io, say);
  await lookAtStream(url, headers, io, say);
}

/** The older generation, by its first message. */
async function lookAtSessions(
  url: URL,
  headers: Record<string, string>,
  io: Io,
  say: (finding: Finding) => void,
): Promise<void> {
  const params = {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "tidings doctor", version: "0" },
  };
  const answer = await fetch(url, {
    method: "POST",
    headers: {
      ...headers,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }),
    signal: io.signal,
  });
  await answer.body?.cancel();
  const session = answer.headers.get("mcp-session-id");
  if (answer.ok && session !== null) {
    say({ level: "ok", about: "2025-11-25", message: "Clients of the older generation get a session." });
    await fetch(url, {
      method: "DELETE",
      headers: { ...headers, "Mcp-Session-Id": session },
      signal: io.signal,
    });
  } else {
    say({
      level: "warning",
      about: "2025-11-25",
      message: `Clients of the older generation are answered with status ${answer.status}.`,
      hint: "They cannot be told of events; they have to poll.",
    });
  }
  const date = Date.parse(answer.headers.get("date") ?? "");
  const skew = Math.abs(date - systemClock.now());
  if (Number.isFinite(skew) && skew > SKEW_MS) {
    say({
      level: "warning",
      about: "clock",
      message: `The server's clock and this one differ by ${spanOf(skew)}.`,
      hint: "Set both by NTP: tokens and times are judged by them.",
    });
  }
}

/** A stream's first byte must come at once, through whatever stands in between. */
async function lookAtStream(
  url: URL,
  headers: Record<string, string>,
  io: Io,
  say: (finding: Finding) => void,
): Promise<void> {
  const tooLate = new AbortController();
  const cancel = systemClock.after(FIRST_BYTE_MS, () => tooLate.abort());
  const begun = systemClock.monotonic();
  const address = new URL("/events", url);
  try {
    const answer = await fetch(address, {
      headers: { ...headers, Accept: "text/event-stream" },
      signal: AbortSignal.any([io.signal, tooLate.signal]),
    });
    const reader = answer.body?.getReader();
    const first = answer.ok ? await reader?.read() : undefined;
    await reader?.cancel();
    const after = `${Math.round(systemClock.monotonic() - begun)} ms`;
    if (first?.value !== undefined)
      say({ level: "ok", about: "streams", message: `${address} begins to flow after ${after}.` });
    else
      say({
        level: "warning",
        about: "streams",
        message: `${address} answered with status ${answer.status}.`,
        hint: "Browsers follow jobs there; mount it beside /mcp.",
      });
  } catch (error) {
    if (io.signal.aborted) throw error;
    say({
      level: "problem",
      about: "streams",
      message: `${address} gave no byte within ${FIRST_BYTE_MS / 1_000} s.`,
      hint: "Something in between holds event streams back: turn off its buffering for text/event-stream.",
    });
  } finally {
    cancel();
  }
}
