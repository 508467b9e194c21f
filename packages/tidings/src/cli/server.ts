/** A server as a target: its tools over MCP, with whichever generation it speaks. */
import { readError, toFailure } from "../client/source/failure.ts";
import { systemClock } from "../engine/system-clock.ts";
import { TidingsError } from "../model/error.ts";
import { hasEnded } from "../model/job.ts";
import { readEvent } from "../model/projection/read.ts";
import { isRecord } from "../model/schema.ts";
import type { JobSnapshot } from "../runtime/snapshot.ts";
import { usageError } from "./command.ts";
import type { Io } from "./io.ts";
import { readSse } from "./sse.ts";
import type { Target, Told } from "./target.ts";

export async function openServer(address: string, token: string | undefined, io: Io): Promise<Target> {
  const url = readUrl(address);
  const headers: Readonly<Record<string, string>> =
    token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const { Client, StreamableHTTPClientTransport } = await loadClient();
  const client = new Client({ name: "tidings", version: "0" }, { versionNegotiation: { mode: "auto" } });
  try {
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }), {
      signal: io.signal,
    });
  } catch (error) {
    throw new TidingsError("UNREACHABLE", `${url} does not answer as an MCP server: ${sentenceOf(error)}`, {
      hint:
        token === undefined
          ? "Check the address; a server with sign-in needs --token."
          : "Check the address and the token.",
      cause: error,
    });
  }

  async function call(
    tool: string,
    args: Record<string, unknown>,
    signal = io.signal,
  ): Promise<Record<string, unknown>> {
    let answer: unknown;
    try {
      answer = await client.callTool({ name: tool, arguments: args }, { signal });
    } catch (error) {
      throw toFailure(error, `Asking ${url} for ${tool}`);
    }
    const content = isRecord(answer) ? answer.structuredContent : undefined;
    if (isRecord(answer) && answer.isError === true) {
      const info = isRecord(content) ? (content.error ?? content) : undefined;
      throw readError(info) ?? new TidingsError("UNREACHABLE", `${url} refused ${tool}.`);
    }
    if (isRecord(content)) return content;
    throw new TidingsError("UNREACHABLE", `${url} answered ${tool} in a form that is not known.`, {
      hint: "Is it a Tidings server?",
    });
  }

  async function page(jobId: string, after: string | undefined, waitSeconds: number, signal = io.signal) {
    const answer = await call(
      "get_job_events",
      { jobId, waitSeconds, ...(after === undefined ? {} : { after }) },
      signal,
    );
    const told: Told[] = [];
    const cursor = String(answer.cursor);
    if (answer.truncated === true) told.push({ kind: "gap", cursor });
    for (const params of Array.isArray(answer.events) ? answer.events : []) {
      const read = readEvent(params);
      if (read.kind === "event") told.push({ kind: "event", event: read.event, cursor: read.cursor });
    }
    return {
      told,
      cursor,
      nextPollMs: Number(answer.nextPollMs),
      status: answer.status as JobSnapshot["status"],
    };
  }

  return {
    name: url.href,
    async list({ status, correlationId, limit }) {
      const jobs: JobSnapshot[] = [];
      let cursor: unknown;
      do {
        const answer = await call("list_my_jobs", {
          limit: Math.min(100, limit - jobs.length),
          ...(status === undefined ? {} : { status }),
          ...(correlationId === undefined ? {} : { correlationId }),
          ...(cursor === undefined ? {} : { cursor }),
        });
        jobs.push(...(Array.isArray(answer.jobs) ? (answer.jobs as JobSnapshot[]) : []));
        cursor = answer.nextCursor;
      } while (cursor !== undefined && jobs.length < limit);
      return jobs;
    },
    get: async (jobId) => (await call("get_job", { jobId })) as unknown as JobSnapshot,
    async *follow(jobId, after, signal) {
      if (jobId === undefined) {
        yield* readSse(new URL("/events", url), headers, after === "now" ? undefined : after, signal);
        return;
      }
      let cursor = after;
      if (cursor === "now") cursor = String((await call("get_job", { jobId })).cursor);
      while (!signal.aborted) {
        const next = await page(jobId, cursor, 20, signal);
        yield* next.told;
        cursor = next.cursor;
        if (hasEnded(next.status) && next.nextPollMs > 0) return;
      }
    },
    async story(jobId) {
      const told: Told[] = [];
      let cursor: string | undefined;
      for (;;) {
        const next = await page(jobId, cursor, 0);
        told.push(...next.told);
        cursor = next.cursor;
        if (next.nextPollMs > 0) return told;
      }
    },
    async cancel(jobId, reason) {
      return (await call("cancel_job", {
        jobId,
        ...(reason === undefined ? {} : { reason }),
      })) as unknown as JobSnapshot;
    },
    async retry(jobId) {
      const { jobId: successor, status } = await call("retry_job", { jobId });
      return { jobId: String(successor), status: status as JobSnapshot["status"] };
    },
    async close() {
      // A server that does not answer the farewell must not keep the command waiting.
      await Promise.race([
        client.close().catch(() => {}),
        new Promise<void>((resolve) => void systemClock.after(1_000, resolve)),
      ]);
    },
  };
}

/** @throws TidingsError USAGE */
export function readUrl(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol)) return url;
  throw usageError(`--url is "${address}", but must be an address such as http://127.0.0.1:3000/mcp.`);
}

/** The client is an optional peer of this package. */
async function loadClient() {
  try {
    return await import("@modelcontextprotocol/client");
  } catch (error) {
    throw new TidingsError(
      "CLIENT_MISSING",
      "A server is asked over MCP, and the package @modelcontextprotocol/client is not installed.",
      {
        hint: "npm install @modelcontextprotocol/client",
        cause: error,
      },
    );
  }
}

function sentenceOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.message})` : "";
  return `${text}${cause}.`.replace(/\.\.$/, ".");
}
