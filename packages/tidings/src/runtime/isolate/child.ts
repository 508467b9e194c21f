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
import type { Engine } from "../../engine/engine.ts";
import { toJson } from "../../engine/json.ts";
import { openEngine } from "../../engine/open-engine.ts";
import { systemClock, systemRandom } from "../../engine/system-clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { Attempt } from "../context.ts";
import { createAttempt } from "../context.ts";
import type { AnyJobDefinition } from "../define-job.ts";
import { askedDelayOf, describeFailure } from "../failure.ts";
import { printError } from "../print-error.ts";
import type { Rest, ToChild, ToParent } from "./message.ts";
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

// Only looks: Node says it on standard error and ends the process, as it would in the server.
process.on("uncaughtExceptionMonitor", (error) => tell({ kind: "crashing", error: describeFailure(error) }));

async function run({ module, store, record, limits }: Extract<ToChild, { kind: "run" }>): Promise<void> {
  let rest: Rest = { counts: {}, effects: [] };
  try {
    const definition = await load(module, record.job.jobType);
    const engine = telling(await openEngine(store, { clock: systemClock, random: systemRandom }));
    const attempt = createAttempt({
      engine,
      clock: systemClock,
      definition,
      record,
      limits,
      signal: controller.signal,
      onLost: (error) => controller.abort(error),
    });
    try {
      const { summary, result } = (await definition.run(record.input as never, attempt.context)) ?? {};
      // A handler may have left calls without awaiting them: they come before its end.
      await attempt.written();
      return tell({
        kind: "returned",
        ...(summary === undefined ? {} : { summary: String(summary) }),
        ...(result === undefined
          ? {}
          : { result: JSON.parse(toJson(result, `The result of job "${record.job.jobId}"`)) }),
        ...(await restOf(attempt)),
      });
    } catch (error) {
      rest = await restOf(attempt);
      throw error;
    } finally {
      attempt.end();
    }
  } catch (thrown) {
    const delayMs = askedDelayOf(thrown);
    tell({
      kind: "threw",
      error: describeFailure(thrown),
      ...(delayMs === undefined ? {} : { delayMs }),
      ...rest,
    });
  }
}

async function restOf(attempt: Attempt): Promise<Rest> {
  return { counts: attempt.takeCounts() ?? {}, effects: await attempt.takeEffects().catch(() => []) };
}

/** The same store; the parent hears when the handler's own code runs inside a transaction. */
function telling(engine: Engine): Engine {
  return {
    ...engine,
    apply({ write, ...change }) {
      if (write === undefined) return engine.apply(change);
      return engine.apply({
        ...change,
        async write(transaction) {
          tell({ kind: "writing" });
          await write(transaction);
          tell({ kind: "written" });
        },
      });
    },
  };
}

/** The parent ends this process once it has heard how the handler ended. */
function tell(message: ToParent): void {
  process.send?.(message);
}

async function load(module: string, jobType: string): Promise<AnyJobDefinition> {
  let definition: AnyJobDefinition | undefined;
  await new Promise<void>((resolve, reject) => {
    takeRole({
      jobType,
      found: (found) => {
        definition = found as AnyJobDefinition;
      },
      parked: resolve,
    });
    import(module).then(
      () => {
        settleDefinition();
        resolve();
      },
      (cause: unknown) => {
        // The operator reads the whole of it; whoever owns the job learns no path of this machine.
        printError(cause, `loading the module of the isolated job "${jobType}"`);
        reject(
          new TidingsError(
            "HANDLER_CRASHED",
            `The module of the isolated job "${jobType}" could not be loaded.`,
            {
              hint: "The server's standard error says why.",
              cause,
            },
          ),
        );
      },
    );
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
