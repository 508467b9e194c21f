/** The tools that every server with jobs has: get_job, get_job_events, cancel_job, retry_job, list_my_jobs. */
import type { CallToolResult, McpServer, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";
import type { Clock } from "../../model/clock.ts";
import type { Infer, ObjectSchema } from "../../model/schema.ts";
import { noteReader } from "../../runtime/reader.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import { isHidden } from "../error.ts";
import { readJobEvents } from "./job-events-tool.ts";
import { createJobTokens, JOB_TOKEN_META_KEY } from "./job-token.ts";
import type { OwnerOf } from "./owner.ts";
import { checkPolls } from "./poll-limit.ts";
import type { SessionEvents } from "./session-events.ts";
import { toAnswer, toErrorAnswer } from "./tool-answer.ts";
import type { AdvertisedSchema } from "./tool-input.ts";
import {
  advertise,
  CANCEL_JOB_INPUT,
  GET_JOB_EVENTS_INPUT,
  GET_JOB_INPUT,
  LIST_MY_JOBS_INPUT,
  RETRY_JOB_INPUT,
  readArguments,
} from "./tool-input.ts";

/** What all bindings of one server share. */
export interface JobServer {
  readonly server: McpServer;
  readonly tidings: Tidings;
  /** The owner that `registerJob` was given, if it was given one. */
  readonly ownOwner: OwnerOf | undefined;
  /** These are the serving handler's, once one of ours serves the server: read them when they are needed. */
  ownerOf: OwnerOf;
  clock: Clock;
  onError: (error: unknown, during: string) => void;
  readonly session: SessionEvents;
  /** Tells the operator of a fault whose cause the client is not told. */
  readonly report: (error: unknown) => void;
}

export interface Caller {
  readonly owner: string;
  readonly context: ServerContext;
}

/** What a tool says of itself. */
export interface ToolDescription {
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly inputSchema: AdvertisedSchema;
  readonly annotations: ToolAnnotations;
  readonly meta: Record<string, unknown> | undefined;
  /** The answer names a job of the caller: a token for it goes along, where only apps look and no model. */
  readonly grantsJob?: boolean;
  /** It starts jobs, which have limits of their own; every other tool is a question that counts. */
  readonly starts?: boolean;
}

/** Whose request a callback of the server is answering. */
export function ownerIn({ ownerOf }: JobServer, context: ServerContext): string {
  return ownerOf({ authInfo: context.http?.authInfo });
}

/** Registers a tool whose every failure has our shape. */
export function registerTool(
  jobServer: JobServer,
  name: string,
  { title, description, inputSchema, annotations, meta, grantsJob = false, starts = false }: ToolDescription,
  call: (args: Readonly<Record<string, unknown>>, caller: Caller) => Promise<object>,
): void {
  jobServer.server.registerTool(
    name,
    {
      inputSchema,
      annotations,
      ...(title === undefined ? {} : { title }),
      ...(description === undefined ? {} : { description }),
      ...(meta === undefined ? {} : { _meta: meta }),
    },
    async (args, context): Promise<CallToolResult> => {
      try {
        const owner = ownerIn(jobServer, context);
        if (!starts) checkPolls(jobServer.tidings, jobServer.clock, owner);
        await jobServer.session.offer(context, owner);
        const content = await call(args, { owner, context });
        // Without a sign-in a browser needs no token either.
        const isSignedIn = context.http?.authInfo !== undefined;
        return toAnswer(content, grantsJob && isSignedIn ? tokenMeta(jobServer, owner, content) : undefined);
      } catch (error) {
        if (isHidden(error)) jobServer.report(error);
        return toErrorAnswer(error);
      }
    },
  );
}

function tokenMeta({ tidings, clock }: JobServer, owner: string, content: object): Record<string, unknown> {
  const { jobId } = content as { readonly jobId: string };
  return { [JOB_TOKEN_META_KEY]: createJobTokens(tidings, clock).mint(owner, jobId) };
}

/** A tool that every server with jobs has. They are made once: a server is made for each request of 2026-07-28. */
interface SharedTool extends ToolDescription {
  readonly name: string;
  readonly call: (
    jobServer: JobServer,
    args: Readonly<Record<string, unknown>>,
    caller: Caller,
  ) => Promise<object>;
}

function sharedTool<Schema extends ObjectSchema>(
  name: string,
  input: Schema,
  description: Omit<ToolDescription, "inputSchema" | "meta"> & Partial<Pick<ToolDescription, "meta">>,
  call: (jobServer: JobServer, args: Infer<Schema>, caller: Caller) => Promise<object>,
): SharedTool {
  return {
    name,
    meta: undefined,
    ...description,
    inputSchema: advertise(input),
    async call(jobServer, args, caller) {
      return call(jobServer, readArguments(input, args), caller);
    },
  };
}

const SHARED_TOOLS: readonly SharedTool[] = [
  sharedTool(
    "get_job",
    GET_JOB_INPUT,
    {
      title: "Look at a job",
      description:
        "Says how a job stands: status, percentage, stage, counts, and its summary and resultResourceId or its error once it has ended.",
      grantsJob: true,
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    ({ tidings }, { jobId }, { owner }) => tidings.get(owner, jobId),
  ),

  sharedTool(
    "get_job_events",
    GET_JOB_EVENTS_INPUT,
    {
      title: "Read a job's events",
      description: "Reads the events of a job after a cursor, and can wait for the next ones.",
      annotations: { readOnlyHint: true, openWorldHint: false },
      meta: { ui: { visibility: ["app"] } },
    },
    async ({ tidings, clock, server }, request, { owner, context }) => {
      const answer = await readJobEvents(tidings, owner, request, { clock, signal: context.mcpReq.signal });
      const { jobId } = request;
      const name = server.server.getClientVersion()?.name;
      noteReader(tidings, clock, { owner, jobId, name, cursor: answer.cursor });
      return answer;
    },
  ),

  sharedTool(
    "cancel_job",
    CANCEL_JOB_INPUT,
    {
      title: "Cancel a job",
      description:
        "Stops a job and answers how it stands then. A job that has ended already keeps its ending.",
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    },
    ({ tidings }, { jobId, reason }, { owner }) =>
      tidings.cancel(owner, jobId, { canceledBy: "user", ...(reason === undefined ? {} : { reason }) }),
  ),

  sharedTool(
    "retry_job",
    RETRY_JOB_INPUT,
    {
      title: "Start an ended job again",
      description:
        "Starts a new job with the input of an ended one and answers with its jobId. Asked again, it answers with the same new job.",
      grantsJob: true,
      annotations: {
        readOnlyHint: false,
        destructiveHint: false,
        idempotentHint: true,
        openWorldHint: false,
      },
    },
    async ({ tidings, session }, { jobId }, { owner, context }) => {
      const started = await tidings.retry(owner, jobId);
      session.follow(context, owner, started.jobId, started.cursor);
      return started;
    },
  ),

  sharedTool(
    "list_my_jobs",
    LIST_MY_JOBS_INPUT,
    {
      title: "List my jobs",
      description:
        "Lists your jobs, newest first, by page; can be narrowed to a status or to a correlationId.",
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    ({ tidings }, { limit = 20, ...request }, { owner }) => tidings.list(owner, { ...request, limit }),
  ),
];

/** Registers the shared tools. */
export function registerJobTools(jobServer: JobServer): void {
  for (const tool of SHARED_TOOLS) {
    registerTool(jobServer, tool.name, tool, (args, caller) => tool.call(jobServer, args, caller));
  }
}
