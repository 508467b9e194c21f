/**
 * Power loss, seen from the system calls: a file and then its name are on the disk before anybody is told of it.
 *
 *   fsync(….part) = 0 ──▶ rename(….part, SHA.csv) ──▶ fsync(folder) = 0 ──▶ write(acks, "ack SHA")
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { RUN_ARGS } from "../../src/demo/server-process.ts";

const PROGRAM = fileURLToPath(new URL("./sync-process.ts", import.meta.url));
const TRACER = "strace";
const CALLS = "trace=write,fsync,fdatasync,/rename";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "giftgenius-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the program under strace, and gives what it noted and where its files are. */
function trace(kind: "whole" | "broken", options: readonly string[]): { outcomes: string; home: string } {
  const [home, outcomes] = [join(folder, "uploads"), join(folder, "outcomes")];
  const program = [process.execPath, ...RUN_ARGS, PROGRAM, home, outcomes, kind];
  const { status, stderr } = spawnSync(TRACER, ["-f", ...options, ...program], {
    encoding: "utf8",
    timeout: 60_000,
  });
  expect(status, stderr).toBe(0);
  return { outcomes: readFileSync(outcomes, "utf8"), home };
}

/** Why this machine cannot trace; undefined when it can. */
function obstacle(): string | undefined {
  const probe = spawnSync(TRACER, ["-f", "-o", "/dev/null", "true"], { timeout: 20_000 });
  if (probe.error !== undefined) return "strace is not installed";
  return probe.status === 0 ? undefined : "this machine does not allow ptrace";
}

/** The lines on which a call that names something was begun and was done. */
function callsOf(
  lines: readonly string[],
  call: RegExp,
): { readonly begun: number; readonly done: number }[] {
  return lines.flatMap((line, begun) => {
    if (!call.test(line)) return [];
    const [pid = ""] = line.split(" ", 1);
    const done = line.includes("<unfinished ...>")
      ? lines.findIndex((later, at) => at > begun && later.startsWith(pid) && later.includes("resumed>"))
      : begun;
    expect(lines[done]).toMatch(/= 0$/);
    return [{ begun, done }];
  });
}

const reason = obstacle();

describe.skipIf(reason !== undefined)(
  `an upload${reason === undefined ? "" : ` (skipped: ${reason})`}`,
  () => {
    test("regression: was acknowledged, and empty after a loss of power", () => {
      const log = join(folder, "trace");
      // -y names the file of each call.
      const { outcomes, home } = trace("whole", ["-y", "-s", "400", "-e", CALLS, "-o", log]);
      const lines = readFileSync(log, "utf8").split("\n");
      const told = outcomes.match(/[0-9a-f]{64}/g) ?? [];
      expect(told).toHaveLength(10);
      const folderSyncs = callsOf(lines, new RegExp(`f(?:data)?sync\\(\\d+<${home}>`));
      for (const sha256 of told) {
        const acknowledged = lines.findIndex((line) => line.includes(`"ack ${sha256}\\n"`));
        const [named] = callsOf(lines, new RegExp(`rename\\w*\\(.*${sha256}\\.csv"`));
        const draft = /[0-9a-f]{32}-[0-9a-f]{32}\.part/.exec(lines[named?.begun ?? 0] ?? "")?.[0];
        const [synced] = callsOf(lines, new RegExp(`f(?:data)?sync\\(\\d+<[^>]*${draft}>`));
        expect(draft).toBeDefined();
        expect(synced?.done).toBeLessThan(named?.begun ?? 0);
        expect(folderSyncs.some(({ begun, done }) => begun > (named?.done ?? 0) && done < acknowledged)).toBe(
          true,
        );
      }
    });

    test("regression: that broke off at once left a piece, which was made after it was removed", () => {
      // As on a slow disk: the file is made later than everything else is done.
      const slow = ["-e", "trace=openat", "-e", "inject=openat:delay_enter=5000", "-o", "/dev/null"];
      const { outcomes, home } = trace("broken", slow);
      expect(outcomes).toBe("The connection broke.\n".repeat(10));
      expect(readdirSync(home)).toEqual([]);
    });
  },
);
