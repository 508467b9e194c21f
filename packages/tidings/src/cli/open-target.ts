/** From what was typed to a store or a server. */
import type { Engine } from "../engine/engine.ts";
import { openEngine } from "../engine/open-engine.ts";
import { systemRandom } from "../engine/system-clock.ts";
import { createTidings } from "../runtime/create-tidings.ts";
import { DEFAULT_LIMITS } from "../runtime/limits.ts";
import { jobNotFound, refusalOf } from "../runtime/refusal.ts";
import { retryJob } from "../runtime/retry-job.ts";
import { type Arguments, textOf, usageError } from "./command.ts";
import type { Io } from "./io.ts";
import { openServer } from "./server.ts";
import type { Target, Told } from "./target.ts";

/** @throws TidingsError USAGE when neither or both are named; STORE_FAILED, STORE_NOT_FOUND, STORE_TOO_OLD, STORE_TOO_NEW or UNREACHABLE when it cannot be had. */
export async function openTarget(args: Arguments, io: Io): Promise<Target> {
  const url = textOf(args, "url");
  if (url === undefined) return openStore(storeOf(args, io), textOf(args, "owner") ?? "local");
  if (textOf(args, "store") !== undefined) throw usageError("Name a store or a server, not both.");
  return openServer(url, textOf(args, "token") ?? io.env.TIDINGS_TOKEN, io);
}

/** @throws TidingsError USAGE when no store is named, or one that only its own process can see. */
export function storeOf(args: Arguments, io: Io): string {
  const store = textOf(args, "store") ?? io.env.TIDINGS_STORE;
  if (store === undefined || store === "") {
    throw usageError(
      "It is not said which jobs are meant.",
      "Name a store by --store sqlite:PATH, or a server by --url.",
    );
  }
  if (store === "memory:") {
    throw usageError(
      "A store in memory can be seen by its own process only.",
      "Ask its server: --url http://127.0.0.1:3000/mcp",
    );
  }
  return store;
}

/** Without workers and without sweeping: looking at a store changes nothing in it. */
async function openStore(store: string, owner: string): Promise<Target> {
  const engine = await openEngine(store, undefined, { existing: true });
  const tidings = await createTidings({ store: engine, jobs: [], concurrency: 0, sweep: false });
  return {
    name: store,
    store: { tidings, owner },
    async list({ limit, ...filter }) {
      return (await tidings.list(owner, { ...filter, limit })).jobs;
    },
    get: (jobId) => tidings.get(owner, jobId),
    async *follow(jobId, after, signal) {
      const from =
        after === "now" ? { after: { from: "now" } as const } : after === undefined ? {} : { after };
      yield* tidings.tail({ owner, signal, ...from, ...(jobId === undefined ? {} : { jobIds: [jobId] }) });
    },
    async story(jobId) {
      const told: Told[] = [];
      let after: string | undefined;
      for (;;) {
        const page = await tidings.read({
          owner,
          jobIds: [jobId],
          limit: 500,
          ...(after === undefined ? {} : { after }),
        });
        if (page.truncated) told.push({ kind: "gap", cursor: page.cursor });
        told.push(...page.events.map((delivery) => ({ kind: "event" as const, ...delivery })));
        if (!page.hasMore) return told;
        after = page.cursor;
      }
    },
    cancel: (jobId, reason) =>
      tidings.cancel(owner, jobId, { canceledBy: "operator", ...(reason === undefined ? {} : { reason }) }),
    retry: (jobId) => retry(engine, owner, jobId),
    close: () => tidings.close(),
  };
}

async function retry(engine: Engine, owner: string, jobId: string) {
  const old = await engine.get(owner, jobId);
  if (old === undefined) throw jobNotFound();
  const outcome = await retryJob(old, { engine, random: systemRandom });
  if (outcome.outcome !== "created" && outcome.outcome !== "existing")
    throw refusalOf(outcome, { jobId }, DEFAULT_LIMITS);
  const { job } = outcome.record;
  return { jobId: job.jobId, status: job.status };
}
