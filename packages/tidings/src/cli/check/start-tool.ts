/** Which tool of a server starts a job, as far as its description tells. */
import { isRecord } from "../../model/schema.ts";
import { isKeyName } from "./exchange.ts";

export interface OfferedTool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema?: unknown;
  readonly outputSchema?: unknown;
  readonly annotations?: { readonly readOnlyHint?: boolean | undefined } | undefined;
}

/** The likeliest first; those that certainly start nothing are left out. */
export function guessStartTools(tools: readonly OfferedTool[]): readonly OfferedTool[] {
  return tools
    .map((tool) => ({ tool, points: pointsOf(tool) }))
    .filter(({ points }) => points > 0)
    .sort((one, other) => other.points - one.points)
    .map(({ tool }) => tool);
}

function pointsOf({ name, description = "", inputSchema, outputSchema, annotations }: OfferedTool): number {
  const fields = fieldsOf(inputSchema);
  // Whoever takes a job's id asks about a job that exists.
  if (annotations?.readOnlyHint === true || fields.some((field) => /^(?:job|task|run)_?id$/i.test(field)))
    return 0;
  let points = 0;
  if (/^(?:start|run|launch|begin|submit|enqueue|create|schedule|process|generate|analy[sz]e)/i.test(name))
    points += 3;
  if (/_(?:async|background|job|task)$/i.test(name)) points += 2;
  if (/\b(?:job|background|task|asynchronous|long[- ]running)\b/i.test(description.slice(0, 4_000)))
    points += 2;
  if (fields.some(isKeyName)) points += 3;
  if (fieldsOf(outputSchema).some((field) => /^(?:job|task|run)_?id$/i.test(field))) points += 4;
  return points;
}

/** The argument that makes a call of the tool safe to repeat, when it has one. */
export function keyArgumentOf({ inputSchema }: OfferedTool): string | undefined {
  return fieldsOf(inputSchema).find(isKeyName);
}

function fieldsOf(schema: unknown): readonly string[] {
  return isRecord(schema) && isRecord(schema.properties) ? Object.keys(schema.properties).slice(0, 200) : [];
}
