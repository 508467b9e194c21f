/** Another process that works on the same file: run by the tests beside it, never by itself. */
import { createSqliteEngine } from "../../src/engine/sqlite/engine.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";

const [role, path = "", holder = ""] = process.argv.slice(2);
const engine = await createSqliteEngine({ path, clock: systemClock, random: systemRandom });
const say = (word: unknown) => process.stdout.write(`${JSON.stringify(word)}\n`);

/** Ends when the parent closes the pipe. */
const parentLeft = new Promise<void>((resolve) => {
  process.stdin.on("end", resolve).resume();
});

switch (role) {
  case "watch":
    engine.watch("alice", () => void engine.read("alice", {}, 0, 1_000).then(({ head }) => say(head)));
    say("ready");
    await parentLeft;
    break;
  case "claim":
    say("ready");
    await new Promise((resolve) => process.stdin.once("data", resolve));
    for (;;) {
      const claim = { holder, goneHolders: [], jobTypes: ["work"], leaseMs: 60_000, limit: 3 };
      const { records } = await engine.claim(claim);
      if (records.length === 0) break;
      for (const { job } of records) say(job.jobId);
    }
    say("done");
    break;
  case "cancel":
    say("ready");
    await new Promise((resolve) => process.stdin.once("data", resolve));
    for (let index = 0; ; index += 1) {
      const command = { type: "cancel", canceledBy: holder } as const;
      const { outcome } = await engine.apply({ owner: "alice", jobId: `job_${index}`, command });
      say(outcome);
      if (outcome === "unknown") break;
    }
    break;
  case "write": {
    const write = async () => {
      for (;;) {
        const outcome = await engine.apply({
          owner: "alice",
          jobId: "job",
          command: {
            type: "inform",
            events: [{ type: "system.log", level: "info", message: "x".repeat(500), source: "writer" }],
          },
          write: (transaction) => transaction.append("written", [holder]),
        });
        if (outcome.outcome === "applied") say(outcome.entries[0]);
      }
    };
    await Promise.all(Array.from({ length: 8 }, write));
  }
}
await engine.close();
