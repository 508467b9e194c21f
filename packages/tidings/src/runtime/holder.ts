/**
 * Names the process that holds leases, so that a restarted process can tell that its predecessor is gone and take
 * the interrupted jobs back at once instead of waiting for the leases to run out.
 */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Random } from "../model/clock.ts";

/** Holders of this very process; several may live in it. */
const LIVING = new Set<string>();

export interface Holder {
  readonly name: string;
  /** Forgets the name: its leases may be taken over at once. */
  release(): void;
}

export function createHolder(random: Random): Holder {
  const name = [hostname(), process.pid, startTicksOf(process.pid) ?? "", random.id()].join("/");
  LIVING.add(name);
  return { name, release: () => LIVING.delete(name) };
}

/** True only when the holder's process certainly no longer runs: it ran on this machine and its pid is free or reused. */
export function isGone(name: string): boolean {
  if (LIVING.has(name)) return false;
  const [host, pidText, startTicks] = name.split("/");
  const pid = Number(pidText);
  if (host !== hostname() || !Number.isInteger(pid) || pid <= 0) return false;
  if (pid === process.pid || !isAlive(pid)) return true;
  const ticks = startTicksOf(pid);
  return ticks !== undefined && startTicks !== "" && ticks !== startTicks;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
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
