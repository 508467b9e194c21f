/** `tidings retry`: starts an ended job again, as a new one; asked twice, it names the same. */
import { type Command, DONE, TARGET_OPTIONS } from "./command.ts";
import { toInert } from "./inert.ts";
import { openTarget } from "./open-target.ts";
import { isJson, writeJson } from "./print.ts";

export const retry: Command = {
  summary: "start an ended job again",
  usage: "JOB",
  takesJob: "always",
  options: TARGET_OPTIONS,
  async run(args, io) {
    const target = await openTarget(args, io);
    try {
      const started = await target.retry(args.job ?? "");
      if (isJson(args, io)) writeJson(io, { ...started, retryOf: args.job });
      else io.write(`${toInert(args.job ?? "")} goes on as ${toInert(started.jobId)}.\n`);
      return DONE;
    } finally {
      await target.close();
    }
  },
};
