/** `tidings tail`: follows a job to its end, or everything that happens. */
import { hasEnded, isEndType } from "../model/job.ts";
import { reduce } from "../model/reduce.ts";
import { type Command, DONE, FAILED, INTERRUPTED, TARGET_OPTIONS, textOf, usageError } from "./command.ts";
import { toInert } from "./inert.ts";
import type { Io } from "./io.ts";
import { openTarget } from "./open-target.ts";
import { barOf, isJson, lineOf, paint, paintStatus, writeTold } from "./print.ts";
import type { Target, Told } from "./target.ts";

export const tail: Command = {
  summary: "follow a job to its end, or everything that happens",
  usage: "[JOB] [--after CURSOR | --from-start]",
  takesJob: "maybe",
  options: {
    ...TARGET_OPTIONS,
    after: { type: "string", value: "CURSOR", help: "go on behind it" },
    "from-start": { type: "boolean", help: "tell what is kept first; the default with JOB" },
  },
  async run(args, io) {
    const after = textOf(args, "after");
    const fromStart = args.options["from-start"] === true;
    if (after !== undefined && fromStart) throw usageError("--after and --from-start say two beginnings.");
    const target = await openTarget(args, io);
    try {
      const begin = after ?? (fromStart || args.job !== undefined ? undefined : "now");
      // Known before anything is printed: an unknown job is an error, not silence.
      const job = args.job === undefined ? undefined : await target.get(args.job);
      if (job !== undefined && hasEnded(job.status) && after === job.cursor) return endOf(job.status);
      return await follow(args.job, begin, target, io, isJson(args, io));
    } finally {
      await target.close();
    }
  },
};

async function follow(
  jobId: string | undefined,
  after: string | undefined,
  target: Target,
  io: Io,
  asJson: boolean,
): Promise<number> {
  let cursor = after;
  let end: number | undefined;
  const show = asJson ? (told: Told) => writeTold(io, told) : createBar(io, jobId);
  for await (const told of target.follow(jobId, after, io.signal)) {
    cursor = told.cursor ?? cursor;
    show(told);
    if (jobId === undefined || told.kind !== "event") continue;
    if (isEndType(told.event.type)) {
      end = told.event.type === "job.completed" ? DONE : FAILED;
      break;
    }
  }
  if (end !== undefined) return end;
  if (io.signal.aborted) {
    if (cursor !== undefined && cursor !== "now") {
      io.writeError(
        `Go on with: tidings tail ${toInert(jobId ?? "")}${jobId === undefined ? "" : " "}--after ${toInert(cursor, 600)}\n`,
      );
    }
    return INTERRUPTED;
  }
  // The story ended before the cursor.
  return jobId === undefined ? DONE : endOf((await target.get(jobId)).status);
}

function endOf(status: string): number {
  return status === "completed" ? DONE : FAILED;
}

/** Events as lines, and below them one line with a bar, written over as the job goes on. */
function createBar(io: Io, jobId: string | undefined) {
  let job: ReturnType<typeof reduce> | undefined;
  let shown = false;
  return (told: Told) => {
    if (shown) io.write("\r\u001b[2K");
    shown = false;
    if (told.kind === "gap")
      return io.write(`${paint(io, "yellow", "… events before this are no longer kept")}\n`);
    const { event } = told;
    if (event.type !== "job.progress") io.write(`${lineOf(event)}\n`);
    if (jobId === undefined) return;
    job = job === undefined ? (reduce(undefined, event) as typeof job) : reduce(job, event);
    if (job === undefined || hasEnded(job.status)) return;
    const eta = job.etaSeconds === undefined ? "" : ` about ${Math.ceil(job.etaSeconds)} s left`;
    const width = Math.max(10, Math.min(40, io.columns - 50));
    io.write(
      `${paintStatus(io, job.status)} ${barOf(job.percentage, width)} ${toInert(job.stage, 30)}${eta}`,
    );
    shown = true;
  };
}
