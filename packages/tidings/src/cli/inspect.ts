/** `tidings inspect`: which jobs there are, or everything about one. */
import { STATUSES, type Status } from "../model/job.ts";
import { EFFECTS_COLLECTION, type OutsideEffect } from "../runtime/effect-keys.ts";
import { type Reader, readersOf } from "../runtime/reader.ts";
import type { JobSnapshot } from "../runtime/snapshot.ts";
import {
  type Arguments,
  type Command,
  DONE,
  TARGET_OPTIONS,
  textOf,
  usageError,
  wholeNumberOf,
} from "./command.ts";
import { toInert } from "./inert.ts";
import type { Io } from "./io.ts";
import { openTarget } from "./open-target.ts";
import {
  barOf,
  isJson,
  lineOf,
  paintStatus,
  spanOf,
  summaryOf,
  writeJson,
  writeTable,
  writeTold,
} from "./print.ts";
import type { Target } from "./target.ts";

const MAX_EFFECTS = 1_000;

export const inspect: Command = {
  summary: "list jobs, or say everything about one: state, timings, readers, outside effects",
  usage: "[JOB] [--status STATUS] [--correlation ID] [--limit N] [--events]",
  takesJob: "maybe",
  options: {
    ...TARGET_OPTIONS,
    status: { type: "string", value: "STATUS", help: STATUSES.join(", ") },
    correlation: { type: "string", value: "ID", help: "only jobs of this run" },
    limit: { type: "string", value: "N", help: "how many jobs at most; default: 20" },
    events: { type: "boolean", help: "with JOB: its story too" },
  },
  async run(args, io) {
    const target = await openTarget(args, io);
    try {
      if (args.job === undefined) await list(args, io, target);
      else await show(args.job, args, io, target);
      return DONE;
    } finally {
      await target.close();
    }
  },
};

async function list(args: Arguments, io: Io, target: Target): Promise<void> {
  const status = textOf(args, "status");
  if (status !== undefined && !STATUSES.includes(status as Status)) {
    throw usageError(`--status is "${status}", but must be one of ${STATUSES.join(", ")}.`);
  }
  const correlationId = textOf(args, "correlation");
  const jobs = await target.list({
    limit: wholeNumberOf(args, "limit", 20, 10_000),
    ...(status === undefined ? {} : { status: status as Status }),
    ...(correlationId === undefined ? {} : { correlationId }),
  });
  if (isJson(args, io)) {
    for (const job of jobs) writeJson(io, job);
    return;
  }
  if (jobs.length === 0) return void io.write(`There are no such jobs in ${toInert(target.name)}.\n`);
  const now = Date.now();
  const head = ["JOB", "STATUS", "DONE", "TRIES", "AGE", ""];
  const rows = jobs.map((job) => [
    job.jobId,
    job.status,
    `${job.percentage.toFixed(0)} %`,
    `${job.attempt}`,
    spanOf(now - Date.parse(job.createdAt)),
    summaryOf(job),
  ]);
  writeTable(io, [head, ...rows], { shortens: true });
}

interface Details {
  readonly job: JobSnapshot;
  readonly readers?: readonly Reader[];
  readonly effects?: readonly OutsideEffect[];
}

async function show(jobId: string, args: Arguments, io: Io, target: Target): Promise<void> {
  const job = await target.get(jobId);
  const details: Details = { job, ...(await moreOf(jobId, target)) };
  const story = args.options.events === true ? await target.story(jobId) : [];
  if (isJson(args, io)) {
    writeJson(io, details);
    for (const told of story) writeTold(io, told);
    return;
  }
  io.write(`${toInert(job.jobId)}  ${paintStatus(io, job.status)}  ${barOf(job.percentage, 20)}\n`);
  const rows = Object.entries(job).filter(([name]) => !["jobId", "status", "percentage"].includes(name));
  writeTable(
    io,
    rows.map(([name, value]) => [`  ${name}`, typeof value === "string" ? value : JSON.stringify(value)]),
  );
  if (details.readers === undefined)
    io.write("  Readers and outside effects are known to the store only: use --store.\n");
  section(io, "readers", details.readers, (reader) => [
    reader.name,
    reader.cursor,
    `${spanOf(Date.now() - Date.parse(reader.at))} ago`,
  ]);
  section(io, "outside effects", details.effects, ({ key, item }) => [key, item]);
  for (const told of story)
    io.write(told.kind === "event" ? `${lineOf(told.event)}\n` : "… events before this are no longer kept\n");
}

function section<Item>(
  io: Io,
  title: string,
  items: readonly Item[] | undefined,
  toRow: (item: Item) => readonly string[],
): void {
  if (items === undefined || items.length === 0) return;
  io.write(`  ${title}\n`);
  writeTable(
    io,
    items.map((item) => ["   ", ...toRow(item)]),
  );
}

async function moreOf(jobId: string, { store }: Target): Promise<Omit<Details, "job">> {
  if (store === undefined) return {};
  const { tidings, owner } = store;
  const { items } = await tidings.items(owner, jobId, EFFECTS_COLLECTION, { offset: 0, limit: MAX_EFFECTS });
  return { readers: await readersOf(tidings, owner, jobId), effects: items as readonly OutsideEffect[] };
}
