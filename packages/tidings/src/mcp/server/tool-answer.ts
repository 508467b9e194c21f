/** The one shape in which tools answer: the same JSON as structured content and as text. */
import type { CallToolResult } from "@modelcontextprotocol/server";
import { toAnsweredError } from "../error.ts";

/** A tool's answer: `structuredContent`, and the same as JSON in a text block for clients that read only text. */
export function toAnswer(content: object, _meta?: Record<string, unknown>): CallToolResult {
  return {
    ...(_meta === undefined ? {} : { _meta }),
    content: [{ type: "text", text: JSON.stringify(content) }],
    structuredContent: content as Record<string, unknown>,
  };
}

/** A tool's failure: `isError` with `error { code, message, hint?, retryable, data? }`; what is not ours becomes INTERNAL. */
export function toErrorAnswer(error: unknown): CallToolResult {
  return { ...toAnswer({ error: toAnsweredError(error) }), isError: true };
}
