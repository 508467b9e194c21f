/** SQLite and memory are given the same random calls and must give the same answers, and hold the same in the end. */
import { rmSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Engine, Lease, QueueLimit } from "../../src/engine/engine.ts";
import { createMemoryEngine } from "../../src/engine/memory/engine.ts";
import { createSqliteEngine } from "../../src/engine/sqlite/engine.ts";
import type { Command } from "../../src/model/command.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { createManualClock, createSeededRandom, type ManualClock } from "../../src/testing/index.ts";
import { makeFolder } from "./folder.ts";

const OWNERS = ["alice", "bob"];
const CORRELATIONS = ["run-1", "run-2"];
const JOB_IDS = Array.from({ length: 8 }, (_, index) => `job_${index}`);
const error = { code: "HANDLER_FAILED", message: "It broke.", retryable: true };

const owner = fc.constantFrom(...OWNERS);
const jobId = fc.constantFrom(...JOB_IDS);
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    type: fc.constant("progress" as const),
    reports: fc.array(
      fc.record({
        percentage: fc.integer({ min: 1, max: 100 }),
        stage: fc.constant("S"),
        stageKey: fc.constant("s"),
      }),
      { maxLength: 3 },
    ),
  }),
  fc.record({ type: fc.constant("retry" as const), error: fc.constant(error), delayMs: fc.nat(20_000) }),
  fc.constant<Command>({ type: "complete", resultResourceId: "job://x/result", reports: [] }),
  fc.constant<Command>({ type: "fail", error }),
  fc.constant<Command>({ type: "cancel", canceledBy: "user" }),
  fc.constant<Command>({
    type: "inform",
    events: [{ type: "resource.updated", resourceId: "resource:feed", changeType: "snapshot_ready" }],
  }),
);

/** One call, as a plain value so that a failing sequence can be read. `fenceOff` 0 means the fence that was seen last. */
const call = fc.oneof(
  fc.record({
    do: fc.constant("start" as const),
    owner,
    jobId,
    key: maybe(fc.constantFrom("k1", "k2")),
    digest: fc.constantFrom("a", "b"),
    correlationId: maybe(fc.constantFrom(...CORRELATIONS)),
    retryOf: maybe(jobId),
    jobType: fc.constantFrom("work", "other"),
    storedBytes: maybe(fc.integer({ min: 1_000, max: 12_000 })),
    maxAttempts: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({
    do: fc.constant("claim" as const),
    holder: fc.constantFrom("h1", "h2"),
    goneHolders: fc.subarray(["h1", "h2"], { maxLength: 1 }),
    jobTypes: fc.subarray(["work", "other"], { minLength: 1 }),
    limit: fc.integer({ min: 1, max: 4 }),
  }),
  fc.record({
    do: fc.constant("apply" as const),
    owner,
    jobId,
    command: maybe(command),
    fenced: fc.boolean(),
    fenceOff: fc.constantFrom(0, 0, 0, 1),
    counts: maybe(fc.dictionary(fc.constantFrom("rows", "bad", "__proto__"), fc.nat(9), { maxKeys: 2 })),
    checkpoint: maybe(fc.jsonValue({ maxDepth: 1 })),
    append: fc.nat(3),
    broken: fc.constantFrom(false, false, true),
  }),
  fc.record({ do: fc.constant("renew" as const), owner, jobId, fenceOff: fc.constantFrom(0, 0, 1) }),
  fc.record({ do: fc.constant("publish" as const), owner, eventId: fc.constantFrom("e1", "e2", "e3") }),
  fc.record({
    do: fc.constant("put" as const),
    owner,
    key: fc.constantFrom("a", "b"),
    value: maybe(fc.nat(9)),
  }),
  fc.record({
    do: fc.constant("read" as const),
    owner,
    filter: fc.record(
      {
        jobIds: fc.subarray(JOB_IDS),
        correlationId: fc.constantFrom(...CORRELATIONS),
        resourceIds: fc.constant(["resource:feed"]),
      },
      { requiredKeys: [] },
    ),
    after: fc.nat(40),
    limit: fc.integer({ min: 1, max: 12 }),
  }),
  fc.record({
    do: fc.constant("list" as const),
    owner,
    request: fc.record(
      {
        status: fc.constantFrom("pending", "running", "completed", "failed", "canceled" as const),
        correlationId: fc.constantFrom(...CORRELATIONS),
        before: fc.nat(40),
        limit: fc.integer({ min: 1, max: 5 }),
      },
      { requiredKeys: ["limit"] },
    ),
  }),
  fc.record({
    do: fc.constant("wait" as const),
    ms: fc.nat(12_000),
    step: fc.integer({ min: -1e7, max: 1e7 }),
  }),
  fc.record(
    {
      do: fc.constant("prune" as const),
      olderThanMs: fc.nat(20_000),
      keepEvents: fc.nat(15),
      perOwner: fc.record(
        { bytes: fc.nat(8_000), owner: fc.constantFrom(...OWNERS) },
        { requiredKeys: ["bytes"] },
      ),
    },
    { requiredKeys: ["do"] },
  ),
);
type Call = typeof call extends fc.Arbitrary<infer T> ? T : never;

interface Subject {
  readonly engine: Engine;
  readonly clock: ManualClock;
  readonly fences: Map<string, number>;
}

async function perform({ engine, clock, fences }: Subject, step: Call): Promise<unknown> {
  const fenceOf = (of: { owner: string; jobId: string; fenceOff: number }) =>
    (fences.get(`${of.owner}/${of.jobId}`) ?? 1) + of.fenceOff;
  switch (step.do) {
    case "start":
      return engine.start(
        withoutUndefined({ ...step, queue: queueOf(step.storedBytes), input: { of: step.jobId } }),
      );
    case "claim": {
      const outcome = await engine.claim({ ...step, leaseMs: 10_000 });
      for (const { owner, job, fence } of outcome.records) fences.set(`${owner}/${job.jobId}`, fence);
      return outcome;
    }
    case "apply":
      return engine.apply(
        withoutUndefined({
          owner: step.owner,
          jobId: step.jobId,
          fence: step.fenced ? fenceOf(step) : undefined,
          command: step.command,
          counts: step.counts,
          checkpoint: step.checkpoint,
          write:
            step.append === 0
              ? undefined
              : async (transaction: Parameters<NonNullable<Parameters<Engine["apply"]>[0]["write"]>>[0]) => {
                  await transaction.append("items", Array.from({ length: step.append }).fill(step.jobId));
                  await transaction.put("last", step.jobId);
                  if (step.broken) throw new Error("broken");
                },
        }),
      );
    case "renew": {
      const lease: Lease = { owner: step.owner, jobId: step.jobId, fence: fenceOf(step) };
      return engine.renew([lease], 10_000);
    }
    case "publish":
      return engine.publish(step.owner, [
        {
          eventId: step.eventId,
          type: "resource.updated",
          timestamp: "2030-01-01T00:00:00.000Z",
          resourceId: "resource:feed",
          changeType: "snapshot_ready",
        } as TidingsEvent,
      ]);
    case "put":
      return engine.transaction(step.owner, async (transaction) => {
        const before = await transaction.get(step.key);
        if (step.value === undefined) await transaction.delete(step.key);
        else await transaction.put(step.key, step.value);
        return [before, await transaction.get("last")];
      });
    case "read":
      return engine.read(step.owner, step.filter, step.after, step.limit);
    case "list":
      return engine.list(step.owner, step.request as Parameters<Engine["list"]>[1]);
    case "wait":
      clock.step(step.step);
      clock.advance(step.ms);
      return undefined;
    case "prune":
      return engine.prune(step);
  }
}

function queueOf(storedBytes: number | undefined): QueueLimit | undefined {
  return storedBytes === undefined ? undefined : { jobs: 100, bytes: 1_000_000, storedBytes };
}

async function everythingOf({ engine }: Subject): Promise<unknown> {
  const all: unknown[] = [await engine.holders().then((holders) => [...holders].sort())];
  for (const owner of OWNERS) {
    all.push(await engine.read(owner, {}, 0, 1_000), await engine.list(owner, { limit: 100 }));
    for (const jobId of JOB_IDS) {
      all.push(await engine.get(owner, jobId), await engine.items(owner, jobId, "items", 1, 3));
      for (const name of ["input", "checkpoint", "result"] as const)
        all.push(await engine.document(owner, jobId, name));
    }
    const late = { owner, jobId: "late", jobType: "work", input: {}, digest: "", maxAttempts: 1 };
    // Refused, with what is counted.
    all.push(await engine.start({ ...late, queue: { jobs: 0, bytes: 0 } }));
    all.push(await engine.start({ ...late, queue: { jobs: 100, bytes: 1_000_000, storedBytes: 1 } }));
  }
  return all;
}

async function settled(promise: Promise<unknown>): Promise<unknown> {
  try {
    return { value: await promise };
  } catch (error) {
    return { error: (error as { code?: string }).code ?? (error as Error).message };
  }
}

function withoutUndefined<T extends object>(fields: T): { [Name in keyof T]: Exclude<T[Name], undefined> } {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as { [Name in keyof T]: Exclude<T[Name], undefined> };
}

const runs = Number(process.env.TIDINGS_MODEL_RUNS ?? 200);

test("whatever is asked, SQLite answers like memory", { timeout: 60_000 + runs * 300 }, async () => {
  const folder = makeFolder({ inMemory: true });
  let stores = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(call, { minLength: 5, maxLength: 40, size: "max" }), async (calls) => {
      const open = async (create: (ports: { clock: ManualClock }) => Engine | Promise<Engine>) => {
        const clock = createManualClock();
        return { engine: await create({ clock }), clock, fences: new Map() } satisfies Subject;
      };
      const random = createSeededRandom(1);
      stores += 1;
      const memory = await open(({ clock }) => createMemoryEngine({ clock, random }));
      const sqlite = await open(({ clock }) =>
        createSqliteEngine({ path: `${folder}/${stores}.db`, clock, random }),
      );
      try {
        for (const [index, step] of calls.entries()) {
          const expected = await settled(perform(memory, step));
          expect(await settled(perform(sqlite, step)), `call ${index}: ${JSON.stringify(step)}`).toEqual(
            expected,
          );
        }
        expect(await everythingOf(sqlite)).toEqual(await everythingOf(memory));
      } finally {
        await Promise.all([memory.engine.close(), sqlite.engine.close()]);
        rmSync(`${folder}/${stores}.db`);
      }
    }),
    { numRuns: runs },
  );
});
