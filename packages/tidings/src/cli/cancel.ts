/** `tidings cancel`: stops a job; one that has ended stays as it is. */
import { type Command, DONE, TARGET_OPTIONS, textOf } from "./command.ts";
import { toInert } from "./inert.ts";
import { openTarget } from "./open-target.ts";
import { isJson, paintStatus, writeJson } from "./print.ts";

export const cancel: Command = {
  summary: "stop a job",
  usage: "JOB [--reason TEXT]",
  takesJob: "always",
  options: {
    ...TARGET_OPTIONS,
    reason: { type: "string", value: "TEXT", help: "stands in the job's story" },
  },
  async run(args, io) {
    const target = await openTarget(args, io);
    try {
      const job = await target.cancel(args.job ?? "", textOf(args, "reason"));
      if (isJson(args, io)) writeJson(io, job);
      else if (job.status === "canceled")
        io.write(`${toInert(job.jobId)} is ${paintStatus(io, job.status)}.\n`);
      else io.write(`${toInert(job.jobId)} had ended before: it is ${paintStatus(io, job.status)}.\n`);
      return DONE;
    } finally {
      await target.close();
    }
  },
};
