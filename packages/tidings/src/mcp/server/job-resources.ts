/** The resources `job://{jobId}` (the snapshot) and `job://{jobId}/result`, and subscriptions to them on 2025 connections. */
import type { ReadResourceResult } from "@modelcontextprotocol/server";
import { ResourceNotFoundError, ResourceTemplate } from "@modelcontextprotocol/server";
import { TidingsError } from "../../model/error.ts";
import { hasEnded } from "../../model/job.ts";
import type { JobServer } from "./job-tools.ts";
import { ownerIn } from "./job-tools.ts";
import { checkPolls } from "./poll-limit.ts";
import { toResourceError } from "./resource-error.ts";

const JSON_TYPE = "application/json";

// Read once: a server is made for each request of 2026-07-28.
const JOB = new ResourceTemplate("job://{jobId}", { list: undefined });
const RESULT = new ResourceTemplate("job://{jobId}/result", { list: undefined });

/** Registers both resources, and `resources/subscribe` unless the server handles that already. */
export function registerJobResources(jobServer: JobServer): void {
  const { server, tidings, report } = jobServer;

  async function answering<T>(uri: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw toResourceError(error, uri, report);
    }
  }

  function register(
    name: string,
    template: ResourceTemplate,
    metadata: { title: string; description: string },
    read: (owner: string, jobId: string, uri: string) => Promise<unknown>,
  ): void {
    server.registerResource(
      name,
      template,
      { ...metadata, mimeType: JSON_TYPE },
      (uri, variables, context): Promise<ReadResourceResult> =>
        answering(uri.href, async () => {
          const owner = ownerIn(jobServer, context);
          checkPolls(tidings, jobServer.clock, owner);
          await jobServer.session.offer(context, owner);
          const value = await read(owner, String(variables.jobId), uri.href);
          return { contents: [{ uri: uri.href, mimeType: JSON_TYPE, text: JSON.stringify(value ?? null) }] };
        }),
    );
  }

  register(
    "job",
    JOB,
    { title: "A job", description: "How a job stands: the same as get_job answers." },
    (owner, jobId) => tidings.get(owner, jobId),
  );

  register(
    "job-result",
    RESULT,
    {
      title: "A job's result",
      description: "What a completed job returned, as JSON. Before the end: the error JOB_NOT_ENDED.",
    },
    async (owner, jobId, uri) => {
      const { status } = await tidings.get(owner, jobId);
      if (!hasEnded(status)) {
        throw new TidingsError("JOB_NOT_ENDED", `Job ${jobId} is ${status}; its result comes with its end.`, {
          hint: "Wait for job.completed, then read this resource again.",
        });
      }
      if (status !== "completed") {
        throw new ResourceNotFoundError(uri, `Job ${jobId} is ${status}; it has no result.`);
      }
      return tidings.result(owner, jobId);
    },
  );

  const { server: connection } = server;
  try {
    connection.assertCanSetRequestHandler("resources/subscribe");
    connection.assertCanSetRequestHandler("resources/unsubscribe");
  } catch {
    // The server has subscriptions of its own. Taking them over would break them; started jobs are told of all the same.
    return;
  }
  connection.registerCapabilities({ resources: { subscribe: true } });
  connection.setRequestHandler("resources/subscribe", ({ params: { uri } }, context) =>
    answering(uri, async () => {
      const owner = ownerIn(jobServer, context);
      checkPolls(tidings, jobServer.clock, owner);
      await jobServer.session.subscribe(owner, uri);
      return {};
    }),
  );
  connection.setRequestHandler("resources/unsubscribe", ({ params: { uri } }) => {
    jobServer.session.unsubscribe(uri);
    return {};
  });
}
