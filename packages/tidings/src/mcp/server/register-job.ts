/** Makes a job a tool of an MCP server that exists already. */
import type { McpServer, Server, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";
import { systemClock } from "../../engine/system-clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { StandardSchema } from "../../model/standard-schema.ts";
import { jsonSchemaOf } from "../../model/standard-schema.ts";
import type { JobDefinition } from "../../runtime/define-job.ts";
import { printError } from "../../runtime/print-error.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import { registerJobResources } from "./job-resources.ts";
import type { JobServer } from "./job-tools.ts";
import { ownerIn, registerJobTools, registerTool } from "./job-tools.ts";
import type { OwnerOf } from "./owner.ts";
import { defaultOwner } from "./owner.ts";
import type { SessionEvents } from "./session-events.ts";
import { createSessionEvents } from "./session-events.ts";
import { advertise, advertiseStart, readStartArguments, validateArguments } from "./tool-input.ts";

/** How a job becomes a tool. */
export interface RegisterJobOptions<Args, Input> {
  /** The tool's name, such as `start_bulk_gift_analysis`. */
  readonly tool: string;
  /** The tool's name for people. Default: none. */
  readonly title?: string;
  /** What the tool does, for the model that chooses among tools. Default: none. */
  readonly description?: string;
  /** The tool's `_meta`. Default: none. */
  readonly meta?: Record<string, unknown>;
  /** The tool's arguments, when they are not the job's input; any synchronous Standard Schema of an object. Default: the job's input. */
  readonly input?: StandardSchema<unknown, Args>;
  /** Makes the job's input from the tool's arguments. The same arguments must give the same input, or a repeated key is a conflict. Default: the arguments are the input. */
  readonly prepare?: (args: Args, who: { readonly owner: string }) => Input | Promise<Input>;
  /**
   * Whose job it is, on a server that you mount yourself; one for all jobs of a server. `createHttpHandler` and
   * `serveTidingsStdio` bring their own, and refuse a server that was given another. Default: `defaultOwner`.
   */
  readonly owner?: OwnerOf;
}

/** Says that the server tells the events of its jobs. */
export const JOB_EVENTS_CAPABILITY = "dev.tidings/job-events";

/** By the SDK's inner server, which a factory may return as well. */
const jobServers = new WeakMap<Server, JobServer>();

/**
 * Registers a tool that starts the job and answers at once with `{ jobId, status, cursor }`, once that is durable.
 *
 * The tool takes the job's input and, beside it, `idempotencyKey?` and `correlationId?`. With the first job of a server
 * come the tools `get_job`, `get_job_events` (for apps), `cancel_job`, `retry_job` and `list_my_jobs`, the resources
 * `job://{jobId}` and `job://{jobId}/result`, and subscriptions to them. On stdio and in 2025 sessions the events of
 * started jobs are sent as notifications. A server that handles `resources/subscribe` itself keeps its handler.
 *
 * @throws TidingsError BAD_DEFINITION when the server is connected already, when the input uses the name of one of the
 *   two fields, or when one server is given two different `tidings` or `owner`.
 */
export function registerJob<Input, Output, Args = Output>(
  server: McpServer,
  tidings: Tidings,
  job: JobDefinition<string, Input, Output>,
  options: RegisterJobOptions<Args, Input>,
): void {
  const { tool, prepare } = options;
  const input = (options.input ?? job.input) as StandardSchema<unknown, Args>;
  const inputSchema = advertiseStart(input, tool);
  const jobServer = jobServerOf(server, tidings, options);

  async function toInput(own: Readonly<Record<string, unknown>>, owner: string): Promise<Input> {
    // Without a translation the arguments are the job's input, which `start` validates: once, for schemas that transform.
    if (prepare === undefined && options.input === undefined) return own as Input;
    const args = validateArguments(input, own, tool);
    return prepare === undefined ? (args as unknown as Input) : await prepare(args, { owner });
  }

  registerTool(
    jobServer,
    tool,
    {
      title: options.title,
      description: options.description,
      inputSchema,
      annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
      meta: options.meta,
      grantsJob: true,
      starts: true,
    },
    async (raw, { owner, context }) => {
      const { own, start } = readStartArguments(raw);
      const started = await tidings.start(job, await toInput(own, owner), { owner, ...start });
      jobServer.session.follow(context, owner, started.jobId, started.cursor);
      return started;
    },
  );
}

/** A tool of your own beside the jobs'. */
export interface JobToolOptions<Args> {
  /** The tool's name. */
  readonly tool: string;
  /** The tool's name for people. Default: none. */
  readonly title?: string;
  /** What the tool does, for the model that chooses among tools. Default: none. */
  readonly description?: string;
  /** The tool's `_meta`. Default: none. */
  readonly meta?: Record<string, unknown>;
  /** Any synchronous Standard Schema of an object. */
  readonly input: StandardSchema<unknown, Args>;
  /** Default: the tool only reads. */
  readonly annotations?: ToolAnnotations;
}

/**
 * Registers a tool of your own beside the jobs': its arguments are validated, its answer is structured content and text,
 * and every failure has the shape of the job tools (`isError` with `error { code, message, hint?, retryable, data? }`).
 * Its calls count among the owner's questions (200 a second).
 *
 * @param call - What it does, for the caller's owner; throws TidingsError to fail with a code.
 * @throws TidingsError BAD_DEFINITION when no job was registered for the server before.
 */
export function registerJobTool<Args>(
  server: McpServer,
  options: JobToolOptions<Args>,
  call: (args: Args, who: { readonly owner: string }) => Promise<object>,
): void {
  const { tool, input, title, description, meta, annotations = { readOnlyHint: true } } = options;
  const jobServer = withJobs(server, `The tool "${tool}"`);
  const inputSchema = advertise(jsonSchemaOf(input, "input") ?? { type: "object" });
  registerTool(jobServer, tool, { title, description, inputSchema, annotations, meta }, (raw, { owner }) =>
    call(validateArguments(input, raw, tool), { owner }),
  );
}

/**
 * Whose request a resource's or a tool's callback is answering: the same owner that the jobs of the server go by.
 *
 * @throws TidingsError BAD_DEFINITION when no job was registered for the server before.
 */
export function ownerOfRequest(server: McpServer, context: ServerContext): string {
  return ownerIn(withJobs(server, "The question for an owner"), context);
}

function withJobs(server: McpServer, what: string): JobServer {
  const jobServer = findJobServer(server);
  if (jobServer !== undefined) return jobServer;
  throw new TidingsError("BAD_DEFINITION", `${what} came before any job of its server.`, {
    hint: "Call registerJob first.",
  });
}

/** What was registered for a server; undefined when `registerJob` never saw it. */
export function findJobServer(server: McpServer | Server): JobServer | undefined {
  return jobServers.get(innerOf(server));
}

/**
 * Gives a server's jobs what the handler that serves them goes by.
 *
 * @throws TidingsError BAD_DEFINITION when its jobs were registered with another owner.
 */
export function adopt(
  server: McpServer | Server,
  { ownerOf, clock, onError }: Pick<JobServer, "ownerOf" | "clock" | "onError">,
): void {
  const jobServer = findJobServer(server);
  if (jobServer === undefined) return;
  if (jobServer.ownOwner !== undefined && jobServer.ownOwner !== ownerOf) {
    throw new TidingsError(
      "BAD_DEFINITION",
      "A server's jobs have another `owner` than the handler that serves them.",
      {
        hint: "Give `owner` to createHttpHandler or serveTidingsStdio, and not to registerJob.",
      },
    );
  }
  jobServer.ownerOf = ownerOf;
  jobServer.clock = clock;
  jobServer.onError = onError;
}

export function innerOf(server: McpServer | Server): Server {
  return "server" in server ? server.server : server;
}

function jobServerOf(
  server: McpServer,
  tidings: Tidings,
  { owner, tool }: Pick<RegisterJobOptions<never, never>, "owner" | "tool">,
): JobServer {
  const existing = findJobServer(server);
  if (existing !== undefined) {
    if (
      existing.tidings !== tidings ||
      (owner !== undefined && owner !== (existing.ownOwner ?? existing.ownerOf))
    ) {
      throw new TidingsError(
        "BAD_DEFINITION",
        `The tool "${tool}" was registered with another tidings or owner than the jobs before it.`,
        { hint: "Give all jobs of one server the same." },
      );
    }
    return existing;
  }
  if (server.isConnected()) {
    throw new TidingsError("BAD_DEFINITION", `The tool "${tool}" came after its server was connected.`, {
      hint: "Call registerJob before server.connect: capabilities cannot be added later.",
    });
  }
  const report = (error: unknown) => {
    const { onerror } = server.server;
    if (onerror === undefined) jobServer.onError(error, "an MCP server's jobs");
    else onerror(error instanceof Error ? error : new Error(String(error)));
  };
  let session: SessionEvents | undefined;
  const jobServer: JobServer = {
    server,
    tidings,
    ownOwner: owner,
    ownerOf: owner ?? defaultOwner,
    clock: systemClock,
    onError: printError,
    get session() {
      session ??= createSessionEvents(server, tidings, report);
      return session;
    },
    report,
  };
  server.server.registerCapabilities({
    logging: {},
    // One name, where each generation looks for what it does not know.
    experimental: { [JOB_EVENTS_CAPABILITY]: {} },
    extensions: { [JOB_EVENTS_CAPABILITY]: {} },
  });
  registerJobTools(jobServer);
  registerJobResources(jobServer);
  jobServers.set(server.server, jobServer);
  return jobServer;
}
