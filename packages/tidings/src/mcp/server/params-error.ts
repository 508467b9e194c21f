/** What the SDK answers when a request's params do not fit its own schemas, in our words. */
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { TidingsError } from "../../model/error.ts";
import { isRecord } from "../../model/schema.ts";
import { INTERNAL_ERROR, INVALID_PARAMS, toRpcError } from "../error.ts";

/** How the SDK begins such a sentence, if at all; what its schemas found follows, as JSON. */
const PREFIX = /^(?:(?:ZodError|Invalid \S{1,100} request): )?(?=\[)/;
const CODES: ReadonlySet<number> = new Set([INTERNAL_ERROR, INVALID_PARAMS]);
const MAX_PROBLEM_LENGTH = 300;

/**
 * The message as it shall leave. The SDK mostly calls params that do not fit a failure of its own (-32603); they are the
 * caller's, and are answered with -32602 and the first thing that is wrong.
 */
export function correctParamsError(message: JSONRPCMessage): JSONRPCMessage {
  if (!("error" in message) || !CODES.has(message.error.code)) return message;
  const problem = firstProblem(message.error.message);
  if (problem === undefined) return message;
  const error = new TidingsError("BAD_INPUT", `The request was not accepted: ${problem}.`, {
    hint: "Correct the named field and send it again.",
  });
  return { ...message, error: toRpcError(error) };
}

function firstProblem(text: string): string | undefined {
  const prefix = PREFIX.exec(text)?.[0];
  if (prefix === undefined) return undefined;
  const [issue]: unknown[] = parseIssues(text.slice(prefix.length));
  // What a handler's own schema says of something else stays the handler's failure.
  if (!isRecord(issue) || !Array.isArray(issue.path) || issue.path[0] !== "params") return undefined;
  return `${issue.path.join(".")}: ${issue.message}`.slice(0, MAX_PROBLEM_LENGTH);
}

function parseIssues(json: string): unknown[] {
  try {
    const issues: unknown = JSON.parse(json);
    return Array.isArray(issues) ? issues : [];
  } catch {
    return [];
  }
}
