/**
 * The process of one isolated attempt. It opens the same store, works under the claim that its parent holds, and
 * reports what the handler returned or threw; the parent writes the end of the attempt.
 *
 *   fork ──run──▶ load module ──▶ handler ──returned │ threw──▶ parent ──▶ exit
 *                                    ▲ abort: the signal; a process that stays is killed soon after
 *
 * It never outlives its parent: a thread watches for that, because the handler may block the loop of this one.
 */
import { Worker } from "node:worker_threads";
import { openEngine } from "../../engine/open-engine.ts";
import { systemClock, systemRandom } from "../../engine/system-clock.ts";
import { TidingsError } from "../../model/error.ts";
import { createAttempt } from "../context.ts";
import type { AnyJobDefinition } from "../define-job.ts";
import { RetryAfter } from "../error.ts";
import { describeFailure } from "../failure.ts";
import type { ToChild, ToParent } from "./message.ts";
import { settleDefinition, takeRole } from "./role.ts";

const ORPHAN_WATCH = `
const { workerData } = require("node:worker_threads");
setInterval(() => process.ppid === workerData || process.kill(process.pid, "SIGKILL"), 500);
`;

const controller = new AbortController();

new Worker(ORPHAN_WATCH, { eval: true, workerData: process.ppid, execArgv: [] }).unref();
process.on("disconnect", () => process.exit(1));
process.on("message", (message: ToChild) => {
  if (message.kind === "run") void run(message);
  else {
    const { code, message: sentence, hint, retryable } = message.error;
    controller.abort(
      new TidingsError(code, sentence, { retryable, ...(hint === undefined ? {} : { hint }) }),
    );
  }
});

async function run({ module, store, record, limits }: Extract<ToChild, { kind: "run" }>): Promise<void> {
  let rest: Pick<ToParent, "counts" | "effects"> = {};
  try {
    const definition = await load(module, record.job.jobType);
    const engine = await openEngine(store, { clock: systemClock, random: systemRandom });
    const attempt = createAttempt({
      engine,
      clock: systemClock,
      definition,
      record,
      limits,
      signal: controller.signal,
      onLost: (error) => controller.abort(error),
    });
    const takeRest = () => {
      const counts = attempt.takeCounts();
      rest = { ...(counts === undefined ? {} : { counts }), effects: attempt.takeEffects() };
    };
    try {
      const outcome = await definition.run(record.input as never, attempt.context);
      // A handler may have left calls without awaiting them: they come before its end.
      await attempt.written();
      takeRest();
      return tell({ kind: "returned", outcome: outcome ?? {}, ...rest });
    } catch (error) {
      takeRest();
      throw error;
    } finally {
      attempt.end();
    }
  } catch (thrown) {
    const delay = thrown instanceof RetryAfter ? { delayMs: thrown.delayMs } : {};
    tell({ kind: "threw", error: describeFailure(thrown), ...delay, ...rest });
  }
}

/** The parent ends this process once it has heard. */
function tell(message: ToParent): void {
  process.send?.(message);
}

async function load(module: string, jobType: string): Promise<AnyJobDefinition> {
  let definition: AnyJobDefinition | undefined;
  await new Promise<void>((resolve, reject) => {
    takeRole({
      jobType,
      found: (found) => {
        definition = found;
      },
      parked: resolve,
    });
    import(module).then(() => {
      settleDefinition();
      resolve();
    }, reject);
  });
  if (definition !== undefined) return definition;
  throw new TidingsError(
    "BAD_DEFINITION",
    `The module of the isolated job "${jobType}" does not define it.`,
    {
      hint: "Call defineJob at the top of the module, before anything that waits, or name the right module.",
      retryable: false,
    },
  );
}
