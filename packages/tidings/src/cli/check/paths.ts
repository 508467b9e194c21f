/** The ways on which a server may tell of a job once the tool has answered. */
import type { Client, McpSubscription } from "@modelcontextprotocol/client";
import { JOBS_FILTER_KEY } from "../../mcp/wire/2026-07-28.ts";
import { isRecord } from "../../model/schema.ts";
import { bodiesOf } from "./exchange.ts";

export interface Paths {
  /** Opens every path again that is closed. Never rejects. @param after - The cursor to go on after, where a path has one. */
  open(after: string | undefined): Promise<void>;
  /** A 2025 session opens its stream by itself, a little later. */
  readonly isOpening: boolean;
  /** What the server would not open, in sentences. */
  readonly refusals: readonly string[];
}

const JOB_EVENTS_CAPABILITY = "dev.tidings/job-events";
const MAX_URIS = 20;

/** @param result - The tool's answer. */
export async function findPaths(client: Client, result: unknown, jobId: string | undefined): Promise<Paths> {
  const refusals = new Set<string>();
  const isModern = client.getProtocolEra() === "modern";
  const isOurs = offersJobEvents(client);
  const uris = await urisOf(client, result, jobId, isOurs);
  const open = new Map<string, McpSubscription>();
  let isSubscribed = false;

  async function listen(name: string, filter: object): Promise<void> {
    if (open.has(name)) return;
    try {
      const subscription = await client.listen(filter, { timeout: 10_000 });
      open.set(name, subscription);
      void subscription.closed.then(() => open.delete(name));
    } catch (error) {
      refusals.add(`The server would not open subscriptions/listen for ${name}: ${reasonOf(error)}`);
    }
  }

  return {
    async open(after) {
      // What was just broken has to be noticed before it is opened again.
      await new Promise((resolve) => setImmediate(resolve));
      if (!isModern) {
        // A session keeps its subscriptions when its stream is opened again.
        if (isSubscribed || client.getServerCapabilities()?.resources?.subscribe !== true) return;
        isSubscribed = true;
        for (const uri of uris) await client.subscribeResource({ uri }, { timeout: 10_000 }).catch(() => {});
        return;
      }
      if (isOurs && jobId !== undefined) {
        const from = after === undefined ? {} : { after };
        await listen("jobs", { [JOBS_FILTER_KEY]: { jobIds: [jobId], ...from } });
      }
      if (uris.length > 0) await listen("resources", { resourceSubscriptions: [...uris] });
      else if (!isOurs) await listen("resources", { resourcesListChanged: true });
    },
    get isOpening() {
      return open.size > 0;
    },
    get refusals() {
      return [...refusals];
    },
  };
}

function offersJobEvents(client: Client): boolean {
  const { extensions, experimental } = client.getServerCapabilities() ?? {};
  return [extensions, experimental].some(
    (each) => isRecord(each) && Object.hasOwn(each, JOB_EVENTS_CAPABILITY),
  );
}

/** The resources that may tell of the job: those that the answer names, and templates that take the job's id. */
async function urisOf(
  client: Client,
  result: unknown,
  jobId: string | undefined,
  isOurs: boolean,
): Promise<readonly string[]> {
  const uris = new Set<string>();
  for (const body of bodiesOf(result)) {
    for (const [name, value] of Object.entries(body)) {
      if (typeof value === "string" && /(?:uri|url|resourceId|resource_id)$/i.test(name) && isUri(value))
        uris.add(value);
    }
  }
  const content = isRecord(result) && Array.isArray(result.content) ? result.content : [];
  for (const block of content) {
    if (isRecord(block) && block.type === "resource_link" && typeof block.uri === "string")
      uris.add(block.uri);
  }
  if (jobId !== undefined) {
    if (isOurs) uris.add(`job://${jobId}`);
    for (const template of await templatesOf(client)) {
      const variables = [...template.matchAll(/\{([^}]{1,40})\}/g)];
      const [only] = variables;
      if (variables.length !== 1 || !/^(?:(?:job|task|run)_?)?id$/i.test(only?.[1] ?? "")) continue;
      uris.add(template.replace(only?.[0] ?? "", () => encodeURIComponent(jobId)));
    }
  }
  return [...uris].slice(0, MAX_URIS);
}

async function templatesOf(client: Client): Promise<readonly string[]> {
  if (client.getServerCapabilities()?.resources === undefined) return [];
  try {
    const { resourceTemplates } = await client.listResourceTemplates(undefined, { timeout: 10_000 });
    return resourceTemplates.map(({ uriTemplate }) => uriTemplate).slice(0, 50);
  } catch {
    return [];
  }
}

function isUri(text: string): boolean {
  return text.length < 2_000 && /^[a-z][a-z0-9+.-]*:/i.test(text);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 300) : "no reason was given.";
}
