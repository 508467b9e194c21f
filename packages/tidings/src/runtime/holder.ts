/**
 * Names the process that holds leases, so that a restarted process can tell that its predecessor is gone and take
 * the interrupted jobs back at once instead of waiting for the leases to run out.
 *
 *   host / pid / start of the process / pid namespace / thread / random
 */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { threadId } from "node:worker_threads";
import type { Random } from "../model/clock.ts";

/** Holders of this very thread, whichever copy of the package they come from; several may live in it. */
const LIVING = livingHere();

export interface Holder {
  readonly name: string;
  /** Forgets the name: its leases may be taken over at once. */
  release(): void;
}

export function createHolder(random: Random): Holder {
  const { pid } = process;
  const name = [hostname(), pid, startTicksOf(pid) ?? "", namespace(), threadId, random.id()].join("/");
  LIVING.add(name);
  return { name, release: () => LIVING.delete(name) };
}

/**
 * True only when the holder certainly no longer runs: it ran on this machine, and its pid is free or reused, or it was
 * released in this thread. Of other threads, and of containers with pids of their own, nobody here can tell.
 */
export function isGone(name: string): boolean {
  if (LIVING.has(name)) return false;
  const parts = name.split("/");
  const [host, pidText, startTicks, itsNamespace, itsThread] = parts;
  const pid = Number(pidText);
  if (parts.length !== 6 || host !== hostname() || itsNamespace !== namespace()) return false;
  if (!Number.isInteger(pid) || pid <= 0) return false;
  if (pid !== process.pid && !isAlive(pid)) return true;
  const ticks = startTicksOf(pid);
  if (ticks !== undefined && startTicks !== "" && ticks !== startTicks) return true;
  return pid === process.pid && itsThread === String(threadId);
}

function livingHere(): Set<string> {
  const here = globalThis as { [key: symbol]: Set<string> | undefined };
  const key = Symbol.for("dev.tidings/holders");
  here[key] ??= new Set();
  return here[key];
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** What this process's pids belong to; two containers may have one hostname and the same pids. Linux only. */
function namespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "";
  }
}

/** When a process began, in ticks since the machine did; tells two processes with one pid apart. Linux only. */
function startTicksOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the program's name in parentheses and may hold blanks.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
