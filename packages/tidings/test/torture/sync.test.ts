/**
 * Power loss, seen from the system calls: the bytes of a job are written to the log of the store and synced to disk
 * before anybody is told that the job exists.
 *
 *   pwrite(jobs.db-wal, "… job_x …") ──▶ fdatasync(jobs.db-wal) = 0 ──▶ write(acks, "ack job_x")
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { makeFolder } from "../engine/folder.ts";

const PROGRAM = fileURLToPath(new URL("./sync-process.ts", import.meta.url));
const TRACER = "strace";
const CALLS = "trace=write,pwrite64,writev,pwritev,fsync,fdatasync";

/** Why this machine cannot trace; undefined when it can. */
function obstacle(): string | undefined {
  const probe = spawnSync(TRACER, ["-f", "-o", "/dev/null", "true"], { timeout: 20_000 });
  if (probe.error !== undefined) return "strace is not installed";
  return probe.status === 0 ? undefined : "this machine does not allow ptrace";
}

interface Verdict {
  readonly acknowledgements: number;
  /** Acknowledged before what they acknowledge was synced. */
  readonly tooEarly: readonly string[];
}

function judge(synchronous: "FULL" | "NORMAL"): Verdict {
  const folder = makeFolder();
  const trace = join(folder, "trace.txt");
  const acks = join(folder, "acks.txt");
  const node = [process.execPath, "--import", import.meta.resolve("tsx"), "--conditions=@tidings/source"];
  const program = [PROGRAM, join(folder, "jobs.db"), acks, synchronous];
  // -y names the file of each call; -s shows a whole page of the log, in which the job's id stands in plain text.
  const strace = ["-f", "-y", "-s", "8192", "-e", CALLS, "-o", trace, ...node, ...program];
  const { status, stderr } = spawnSync(TRACER, strace, { encoding: "utf8", timeout: 60_000 });
  if (status !== 0) throw new Error(`The traced process ended with ${status}: ${stderr}`);
  return readTrace(readFileSync(trace, "latin1"), readFileSync(acks, "utf8"));
}

function readTrace(trace: string, acks: string): Verdict {
  const lines = trace.split("\n");
  const syncs: { readonly begun: number; readonly done: number }[] = [];
  const begunBy = new Map<string, number>();
  for (const [at, line] of lines.entries()) {
    const pid = line.split(" ", 1)[0] ?? "";
    if (/(?:fsync|fdatasync)\(\d+<[^>]*-wal>\)\s*= 0/.test(line)) syncs.push({ begun: at, done: at });
    else if (/(?:fsync|fdatasync)\(\d+<[^>]*-wal>.*<unfinished/.test(line)) begunBy.set(pid, at);
    else if (/<\.\.\. (?:fsync|fdatasync) resumed>.*= 0/.test(line)) {
      const begun = begunBy.get(pid);
      if (begun !== undefined) syncs.push({ begun, done: at });
      begunBy.delete(pid);
    }
  }
  const ids = acks
    .split("\n")
    .filter((text) => text !== "")
    .map((text) => text.slice("ack ".length));
  const tooEarly = ids.filter((id) => {
    const told = lines.findIndex((line) => line.includes(`"ack ${id}\\n"`));
    const written = lines.findIndex(
      (line) => /pwrite(?:64|v)\(\d+<[^>]*-wal>/.test(line) && line.includes(id),
    );
    if (told < 0 || written < 0)
      throw new Error(`The trace does not show ${id}: written ${written}, told ${told}.`);
    return !syncs.some(({ begun, done }) => begun > written && done < told);
  });
  return { acknowledgements: ids.length, tooEarly };
}

const reason = obstacle();

describe.skipIf(reason !== undefined)(
  `an acknowledgement${reason === undefined ? "" : ` (skipped: ${reason})`}`,
  () => {
    test("is never given before what it acknowledges is on the disk", () => {
      expect(judge("FULL")).toEqual({ acknowledgements: 100, tooEarly: [] });
    }, 120_000);

    test("would be given too early without full syncs: the check above sees it", () => {
      expect(judge("NORMAL").tooEarly.length).toBeGreaterThan(90);
    }, 120_000);
  },
);
