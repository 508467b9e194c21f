/**
 * `npm run bench`: every benchmark in one run on one machine; `npm run bench -- engine reduce` only those named.
 * Figures are JSON lines on stdout, the table is on stderr. Ends with 1 when a figure misses what it must reach.
 */
import { benchEngine } from "./engine.ts";
import { benchPrune } from "./prune.ts";
import { benchReduce } from "./reduce.ts";
import { createReporter, type Report } from "./report.ts";
import { benchStarts } from "./starts.ts";
import { benchStreams } from "./streams.ts";

const BENCHES: Readonly<Record<string, (report: Report) => Promise<void>>> = {
  engine: benchEngine,
  prune: benchPrune,
  reduce: benchReduce,
  starts: benchStarts,
  streams: benchStreams,
};

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !Object.hasOwn(BENCHES, name));
if (unknown.length > 0) {
  process.stderr.write(
    `There is no benchmark "${unknown[0]}"; there are ${Object.keys(BENCHES).join(", ")}.\n`,
  );
  process.exit(2);
}
const { report, finish } = createReporter();
for (const [name, bench] of Object.entries(BENCHES)) {
  if (asked.length === 0 || asked.includes(name)) await bench(report);
}
process.exitCode = finish() === 0 ? 0 : 1;
