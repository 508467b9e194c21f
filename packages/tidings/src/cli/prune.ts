/** `tidings prune`: makes room in a store now, instead of waiting for its server to do so. */
import type { PruneRequest } from "../engine/engine.ts";
import {
  type Command,
  DONE,
  measureOf,
  TARGET_OPTIONS,
  textOf,
  usageError,
  wholeNumberOf,
} from "./command.ts";
import { openTarget } from "./open-target.ts";
import { isJson, writeJson } from "./print.ts";

const { store, json } = TARGET_OPTIONS;

export const prune: Command = {
  summary: "remove ended jobs and old events from a store, of all owners",
  usage: "--store STORE [--older-than 30d] [--max-bytes 2gb] [--compact-after 1h] [--keep-events N]",
  takesJob: "never",
  options: {
    ...(store === undefined || json === undefined ? {} : { store, json }),
    "older-than": { type: "string", value: "SPAN", help: "jobs that ended so long ago; 90s, 30m, 12h, 30d" },
    "max-bytes": {
      type: "string",
      value: "SIZE",
      help: "until the store holds no more, the oldest first; 500mb, 2gb",
    },
    "compact-after": {
      type: "string",
      value: "SPAN",
      help: "progress between stages, so long after a job's end",
    },
    "keep-events": {
      type: "string",
      value: "N",
      help: "all but each owner's newest N events; those of jobs that go on stay",
    },
  },
  async run(args, io) {
    const olderThanMs = measureOf(args, "older-than", "duration");
    const maxBytes = measureOf(args, "max-bytes", "size");
    const compactAfterMs = measureOf(args, "compact-after", "duration");
    const keepEvents =
      textOf(args, "keep-events") === undefined
        ? undefined
        : wholeNumberOf(args, "keep-events", 1, Number.MAX_SAFE_INTEGER);
    const request: PruneRequest = {
      ...(olderThanMs === undefined ? {} : { olderThanMs }),
      ...(maxBytes === undefined ? {} : { maxBytes }),
      ...(compactAfterMs === undefined ? {} : { compactAfterMs }),
      ...(keepEvents === undefined ? {} : { keepEvents }),
    };
    if (Object.keys(request).length === 0) {
      throw usageError(
        "It is not said what may go.",
        "Say --older-than, --max-bytes, --compact-after or --keep-events.",
      );
    }
    const target = await openTarget(args, io);
    try {
      if (target.store === undefined) throw usageError("A server prunes by itself; name its store.");
      const removed = await target.store.tidings.prune(request);
      if (isJson(args, io)) writeJson(io, removed);
      else io.write(`Removed ${removed.jobs} jobs and ${removed.events} events.\n`);
      return DONE;
    } finally {
      await target.close();
    }
  },
};
