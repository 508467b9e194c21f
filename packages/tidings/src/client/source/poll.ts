/** A job's story by asking: the tool `get_job_events`, with a wait on the server's side, for clients that get no push. */
import type { Clock } from "../../model/clock.ts";
import type { Status } from "../../model/job.ts";
import { hasEnded } from "../../model/job.ts";
import { readEvent } from "../../model/projection/read.ts";
import { isRecord } from "../../model/schema.ts";
import { browserClock } from "../browser-clock.ts";
import { readError, toFailure, unreachable } from "./failure.ts";
import type { Source, SourceItem, SourceRequest } from "./source.ts";
import { pause } from "./wait.ts";

/** Calls an MCP tool and gives its result, or the `structuredContent` alone. */
export type CallTool = (
  name: string,
  args: Record<string, unknown>,
  options: { readonly signal: AbortSignal },
) => Promise<unknown>;

export interface PollOptions {
  /** How long the server may wait for news, in seconds, 0 to 25. Default 20; a widget should stay below 8. */
  readonly waitSeconds?: number;
  /** Events per answer. Default 100. */
  readonly limit?: number;
  readonly clock?: Clock;
}

/** Without news a pause is never shorter, whatever the server says. */
const LEAST_PAUSE_MS = 50;

/** One answer of `get_job_events`. */
export interface PolledPage {
  readonly items: readonly SourceItem[];
  /** How many events the answer held, valid or not. */
  readonly events: number;
  readonly cursor: string | undefined;
  readonly ended: boolean;
  readonly nextPollMs: number;
}

/** Creates a source that asks again and again, at the pace that the server names. */
export function createPollSource(callTool: CallTool, options: PollOptions = {}): Source {
  const { waitSeconds = 20, limit = 100, clock = browserClock } = options;
  return {
    idleMs: waitSeconds * 1000 + 90_000,
    async *open({ jobId, after, signal }: SourceRequest): AsyncGenerator<SourceItem> {
      let cursor = after;
      let opened = false;
      while (!signal.aborted) {
        const page = await poll(callTool, { jobId, after: cursor, waitSeconds, limit }, signal);
        if (!opened) yield { kind: "open", by: "poll" };
        opened = true;
        cursor = page.cursor ?? cursor;
        yield* page.items;
        if (page.events > 0) continue;
        if (page.ended) {
          yield { kind: "end" };
          return;
        }
        yield { kind: "alive" };
        await pause(clock, Math.max(LEAST_PAUSE_MS, page.nextPollMs), signal);
      }
    },
  };
}

/** Asks once. @throws TidingsError what the tool answered, or UNREACHABLE */
export async function poll(
  callTool: CallTool,
  request: { jobId: string; after: string | undefined; waitSeconds: number; limit: number },
  signal: AbortSignal,
): Promise<PolledPage> {
  const { after, ...rest } = request;
  let result: unknown;
  try {
    result = await callTool("get_job_events", after === undefined ? rest : { ...rest, after }, { signal });
  } catch (error) {
    throw toFailure(error, "Calling get_job_events");
  }
  const answer = contentOf(result);
  if (!isRecord(answer) || !Array.isArray(answer.events)) {
    throw unreachable("get_job_events did not answer with a list of events.");
  }
  const items: SourceItem[] = [];
  if (answer.truncated === true) {
    // Before the events that are still kept: the inbox drops those of them that the snapshot covers.
    items.push({ kind: "snapshot", snapshot: answer.snapshot });
  }
  for (const params of answer.events) {
    const outcome = readEvent(params);
    if (outcome.kind === "event") items.push({ kind: "event", event: outcome.event, cursor: outcome.cursor });
    else if (outcome.kind === "invalid") items.push(outcome);
  }
  const { nextPollMs } = answer;
  return {
    items,
    events: answer.events.length,
    cursor: typeof answer.cursor === "string" ? answer.cursor : undefined,
    ended: typeof answer.status === "string" && hasEnded(answer.status as Status),
    nextPollMs: typeof nextPollMs === "number" && nextPollMs >= 0 ? Math.min(nextPollMs, 60_000) : 1_000,
  };
}

function contentOf(result: unknown): unknown {
  if (!isRecord(result)) return undefined;
  const content = isRecord(result.structuredContent) ? result.structuredContent : textOf(result);
  if (result.isError === true) {
    const info = isRecord(content) ? content.error : undefined;
    throw readError(info) ?? unreachable("get_job_events answered with an error without a code.");
  }
  return content ?? result;
}

function textOf(result: Record<string, unknown>): unknown {
  const first: unknown = Array.isArray(result.content) ? result.content[0] : undefined;
  if (!isRecord(first) || typeof first.text !== "string") return undefined;
  try {
    return JSON.parse(first.text);
  } catch {
    return undefined;
  }
}
