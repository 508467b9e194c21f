/** Pairs the requests of a record with their answers. */
import { isRecord } from "../../model/schema.ts";
import type { Arrival } from "./arrival.ts";
import { contentOf } from "./content.ts";

export interface Exchange {
  readonly request: Arrival | undefined;
  readonly answer: Arrival;
  readonly id: string | number;
  /** The job that the answer names, when it is a tool's. */
  readonly jobId: string | undefined;
  /** Equal for calls of one tool with one idempotency key and the same arguments; undefined without a key. */
  readonly keyed: string | undefined;
}

const JOB_FIELDS = ["jobId", "job_id", "jobID", "taskId", "task_id", "runId", "run_id", "operationId", "id"];

/** Every answer, with its request when the record holds it. */
export function exchangesIn(arrivals: readonly Arrival[]): readonly Exchange[] {
  const requests = new Map<string | number, Arrival>();
  const exchanges: Exchange[] = [];
  for (const arrival of arrivals) {
    const { message } = arrival;
    if (!isRecord(message)) continue;
    const { id } = message;
    if (typeof id !== "string" && typeof id !== "number") continue;
    if (typeof message.method === "string") requests.set(id, arrival);
    else if (Object.hasOwn(message, "result") || Object.hasOwn(message, "error")) {
      const request = requests.get(id);
      requests.delete(id);
      exchanges.push({
        request,
        answer: arrival,
        id,
        jobId: jobIn(message.result),
        keyed: keyedCall(request?.message),
      });
    }
  }
  return exchanges;
}

/** Every id under which answers name a job. */
export function jobsIn(exchanges: readonly Exchange[]): ReadonlySet<string> {
  return new Set(exchanges.flatMap(({ jobId }) => (jobId === undefined ? [] : [jobId])));
}

/** The job that a tool's answer names: in its structured content, in JSON text, or as a task. */
export function jobIn(result: unknown): string | undefined {
  for (const body of bodiesOf(result)) {
    for (const field of JOB_FIELDS) {
      const value = Object.hasOwn(body, field) ? body[field] : undefined;
      if ((typeof value === "string" && value !== "") || Number.isSafeInteger(value)) return String(value);
    }
  }
  return undefined;
}

/** The objects of a tool's answer, the most telling first. */
export function bodiesOf(result: unknown): readonly Record<string, unknown>[] {
  if (!isRecord(result)) return [];
  const found: unknown[] = [result.structuredContent, result.task];
  if (result.resultType === "task") found.push(result);
  for (const block of Array.isArray(result.content) ? result.content.slice(0, 20) : []) {
    if (isRecord(block) && typeof block.text === "string") found.push(parsed(block.text));
  }
  const bodies = found.filter(isRecord);
  return [...bodies, ...bodies.flatMap(({ job, task }) => [job, task].filter(isRecord))];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function keyedCall(request: unknown): string | undefined {
  if (!isRecord(request) || request.method !== "tools/call" || !isRecord(request.params)) return undefined;
  const { name, arguments: args } = request.params;
  if (!isRecord(args) || !Object.keys(args).some(isKeyName)) return undefined;
  return `${contentOf(name)} ${contentOf({ args })}`;
}

/** Whether an argument of this name makes a call safe to repeat. */
export function isKeyName(name: string): boolean {
  return /^(?:idempotency|dedup(?:e|lication)?)_?(?:key|id|token)$/i.test(name);
}
