/** What must hold after a kill, checked from outside: against what the client saw and what the matcher logged. */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import type { Client } from "@modelcontextprotocol/client";
import type { TidingsEvent } from "tidings";
import { BATCH } from "../jobs/bulk-gift-analysis.ts";
import { recommendationsOf } from "./recommendation-pages.ts";

export interface Check {
  readonly what: string;
  readonly holds: boolean;
  readonly seen: string;
}

export async function proveWhole(options: {
  readonly client: Client;
  readonly jobId: string;
  /** The events in the order in which the client was given them. */
  readonly seen: readonly TidingsEvent[];
  readonly matchLog: string;
  readonly killed: boolean;
}): Promise<readonly Check[]> {
  const { client, jobId, seen, matchLog, killed } = options;
  const log = await readLog(client, jobId);
  const ids = (events: readonly { readonly eventId: string }[]): string =>
    events.map(({ eventId }) => eventId).join(" ");
  const shown = seen.flatMap((event) => ("percentage" in event ? (event.percentage as number) : []));
  const boundaries = [10, 40, 70, 100].map((end) => shown.filter((value) => value === end).length);
  const people = new Map<string, number>();
  for await (const { email } of recommendationsOf(client, jobId))
    people.set(email, (people.get(email) ?? 0) + 1);
  const { counts } = (await client.callTool({ name: "get_job", arguments: { jobId } })).structuredContent as {
    counts: { accepted: number };
  };
  const matches = await countMatches(matchLog);
  return [
    { what: "the server was killed in the middle of matching", holds: killed, seen: String(killed) },
    {
      what: "the client saw exactly the stored events, in order",
      holds: ids(seen) === ids(log) && log.length > 0,
      seen: `${seen.length} seen, ${log.length} stored`,
    },
    {
      what: "seq is contiguous from 1",
      holds: seen.every(({ seq }, index) => seq === index + 1),
      seen: `1 … ${seen.at(-1)?.seq}`,
    },
    {
      what: "progress only ever rose",
      holds: shown.every((value, index) => index === 0 || value > (shown[index - 1] ?? 0)),
      seen: `${shown.length} reports`,
    },
    {
      what: "each stage ended exactly once",
      holds: boundaries.every((times) => times === 1),
      seen: boundaries.join(", "),
    },
    {
      what: "each accepted employee is in the result once",
      holds: people.size === counts.accepted && [...people.values()].every((times) => times === 1),
      seen: `${people.size} of ${counts.accepted}`,
    },
    {
      what: `every match was made; at most one batch of ${BATCH} twice`,
      holds: matches.records === counts.accepted && matches.calls - matches.records <= BATCH,
      seen: `${matches.calls} calls for ${matches.records} people`,
    },
  ];
}

/** Prints the checks; true when all hold. */
export function printReport(checks: readonly Check[], print: (line: string) => void): boolean {
  print("");
  for (const { what, holds, seen } of checks) print(`${holds ? "  ok " : "FAIL "} ${what} (${seen})`);
  const whole = checks.every(({ holds }) => holds);
  print(whole ? "\nThe story is whole: nothing was lost, nothing was doubled." : "\nThe story is NOT whole.");
  return whole;
}

async function readLog(client: Client, jobId: string): Promise<readonly { readonly eventId: string }[]> {
  const events: { eventId: string }[] = [];
  let after: string | undefined;
  for (;;) {
    const answer = await client.callTool({
      name: "get_job_events",
      arguments: { jobId, limit: 1000, ...(after === undefined ? {} : { after }) },
    });
    const page = answer.structuredContent as { events: { eventId: string }[]; cursor: string };
    if (page.events.length === 0) return events;
    events.push(...page.events);
    after = page.cursor;
  }
}

async function countMatches(path: string): Promise<{ readonly calls: number; readonly records: number }> {
  const records = new Set<string>();
  let calls = 0;
  for await (const line of createInterface({ input: createReadStream(path) })) {
    calls += 1;
    records.add(line);
  }
  return { calls, records: records.size };
}
