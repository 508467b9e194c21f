/**
 * `npm run torture -- --minutes N`: kills, malformed HTTP and malformed stdio until the time is up, then a JSON report.
 * Exits with 1 when anything was lost, fell over or was answered by a fault of the server's own.
 *
 *   --minutes N     how long, split evenly. Default 10
 *   --only A,B      kills, http, stdio. Default all
 *   --count N       exactly so many kills or messages of each instead of a time
 *   --seed N        where the random choices begin. Default: from the clock, and printed
 *   --report FILE   writes the report there too
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { fuzzHttp } from "./torture-fuzz-http.ts";
import { fuzzStdio } from "./torture-fuzz-stdio.ts";
import { tortureByKills } from "./torture-kills.ts";

const PARTS = ["kills", "http", "stdio"] as const;
type Part = (typeof PARTS)[number];
/** So many messages go to one server before a fresh one is attacked with another seed. */
const MESSAGES_PER_SERVER = 25_000;

interface Partial {
  readonly problems: readonly string[];
}

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    only: { type: "string", default: PARTS.join(",") },
    count: { type: "string" },
    seed: { type: "string" },
    report: { type: "string" },
  },
});
const parts = values.only.split(",").map(readPart);
const budgetMs = (readNumber("minutes", values.minutes) * 60_000) / parts.length;
const count = values.count === undefined ? undefined : readNumber("count", values.count);
const seed = values.seed === undefined ? Date.now() % 2 ** 31 : readNumber("seed", values.seed);
process.stderr.write(`The seed is ${seed}.\n`);

const report: Record<string, readonly Partial[]> = {};
for (const part of parts) report[part] = await runPart(part);
const broken = Object.values(report).some((rounds) => rounds.some(({ problems }) => problems.length > 0));
const text = `${JSON.stringify({ seed, ok: !broken, ...report }, null, 2)}\n`;
process.stdout.write(text);
if (values.report !== undefined) writeFileSync(values.report, text);
process.exit(broken ? 1 : 0);

async function runPart(part: Part): Promise<readonly Partial[]> {
  if (part === "kills") {
    if (count !== undefined) return [await tortureByKills({ kills: count, seed })];
    return [await tortureByKills({ kills: Number.POSITIVE_INFINITY, seed, budgetMs })];
  }
  const fuzz = part === "http" ? fuzzHttp : fuzzStdio;
  const rounds: Partial[] = [];
  const begunAt = performance.now();
  for (let sent = 0; ; sent += MESSAGES_PER_SERVER) {
    const messages = count === undefined ? MESSAGES_PER_SERVER : Math.min(MESSAGES_PER_SERVER, count - sent);
    const over = count === undefined ? performance.now() - begunAt > budgetMs : messages <= 0;
    if (over || rounds.some(({ problems }) => problems.length > 0)) return rounds;
    rounds.push(await fuzz({ messages, seed: seed + sent }));
  }
}

function readPart(name: string): Part {
  const part = PARTS.find((known) => known === name);
  if (part === undefined) fail(`--only ${name} is not understood: use ${PARTS.join(", ")}.`);
  return part;
}

function readNumber(name: string, value: string): number {
  const number = Number(value);
  if (!(number > 0)) fail(`--${name} is "${value}", but must be a number above 0.`);
  return number;
}

function fail(sentence: string): never {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}
