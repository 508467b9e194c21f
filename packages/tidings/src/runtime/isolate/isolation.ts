/** Which module the process of an isolated attempt loads. */
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { TidingsError } from "../../model/error.ts";

export interface IsolateOptions {
  /** Address of the module that calls `defineJob`: `import.meta.url`. Default: found by itself; bundlers may hide it. */
  readonly module?: string;
  /** How large the handler's heap may grow, in MiB, before the attempt fails. Default: Node's own limit. */
  readonly maxMemoryMb?: number;
}

export interface Isolation {
  readonly module: string;
  readonly maxMemoryMb: number | undefined;
}

/** @param caller - The function whose caller defines the job. @throws TidingsError BAD_DEFINITION */
export function readIsolation(
  asked: boolean | IsolateOptions | undefined,
  type: string,
  caller: (...args: never[]) => unknown,
): Isolation | undefined {
  if (asked === undefined || asked === false) return undefined;
  const options = asked === true ? {} : asked;
  const { maxMemoryMb } = options;
  if (maxMemoryMb !== undefined && !(Number.isInteger(maxMemoryMb) && maxMemoryMb >= 16)) {
    throw new TidingsError(
      "BAD_DEFINITION",
      `"${type}" allows its process ${maxMemoryMb} MiB of memory; it must be a whole number from 16.`,
    );
  }
  const module = toFileUrl(options.module ?? findCaller(caller) ?? "");
  if (module !== undefined) return { module, maxMemoryMb };
  throw new TidingsError("BAD_DEFINITION", `The module that defines "${type}" could not be found.`, {
    hint: "Name it: isolate: { module: import.meta.url }.",
  });
}

/** Stacks name files by path or by URL. */
function toFileUrl(module: string): string | undefined {
  if (module.startsWith("file:")) return module;
  return isAbsolute(module) ? pathToFileURL(module).href : undefined;
}

/** The file of the code that called `caller`, as the stack names it. */
function findCaller(caller: (...args: never[]) => unknown): string | undefined {
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = 1;
    Error.prepareStackTrace = (_, sites) => sites[0]?.getFileName();
    const site: { stack?: unknown } = {};
    Error.captureStackTrace(site, caller);
    return typeof site.stack === "string" ? site.stack : undefined;
  } finally {
    Error.prepareStackTrace = prepareStackTrace;
    Error.stackTraceLimit = stackTraceLimit;
  }
}
