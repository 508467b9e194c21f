/** The filter of `subscriptions/listen`: read from outside, and narrowed to what this owner can really be told. */
import type { ServerCapabilities } from "@modelcontextprotocol/server";
import { TidingsError } from "../../model/error.ts";
import { isRecord } from "../../model/schema.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import { JOBS_FILTER_KEY } from "../wire/2026-07-28.ts";
import { jobIdOf } from "./job-uri.ts";
import { isName, lengthOf, MAX_NAME_LENGTH, MAX_NAMES_LENGTH } from "./name-limit.ts";

/** Our own field: alternatives, not conditions; without any, all events of the owner. */
export interface JobsFilter {
  readonly jobIds?: readonly string[];
  readonly correlationId?: string;
  /** Go on after this cursor; left out = from now. */
  readonly after?: string;
}

/** What a listen asks for, and in the same shape what it gets. */
export interface ListenFilter {
  readonly toolsListChanged?: true;
  readonly promptsListChanged?: true;
  readonly resourcesListChanged?: true;
  readonly resourceSubscriptions?: readonly string[];
  readonly [JOBS_FILTER_KEY]?: JobsFilter;
}

const MAX_NAMES = 1_000;
const LIST_KINDS = ["tools", "prompts", "resources"] as const;

/** @throws TidingsError BAD_INPUT */
export function readFilter(value: unknown): ListenFilter {
  if (!isRecord(value)) throw badFilter("`notifications` must be an object");
  const jobs = value[JOBS_FILTER_KEY];
  const uris = readNames(value.resourceSubscriptions, "resourceSubscriptions");
  return {
    ...readListChanges(value),
    ...(uris === undefined ? {} : { resourceSubscriptions: uris }),
    ...(jobs === undefined ? {} : { [JOBS_FILTER_KEY]: readJobsFilter(jobs) }),
  };
}

function readListChanges(value: Record<string, unknown>): ListenFilter {
  const wanted: Record<string, true> = {};
  for (const kind of LIST_KINDS) {
    const field = `${kind}ListChanged`;
    const asked = value[field];
    if (asked !== undefined && typeof asked !== "boolean") throw badFilter(`${field} must be true or false`);
    if (asked === true) wanted[field] = true;
  }
  return wanted;
}

function readJobsFilter(value: unknown): JobsFilter {
  if (!isRecord(value)) throw badFilter(`"${JOBS_FILTER_KEY}" must be an object`);
  const { correlationId, after } = value;
  const jobIds = readNames(value.jobIds, `"${JOBS_FILTER_KEY}".jobIds`);
  if (correlationId !== undefined && !isName(correlationId)) {
    throw badFilter(
      `"${JOBS_FILTER_KEY}".correlationId must be a text of 1 to ${MAX_NAME_LENGTH} characters`,
    );
  }
  if (after !== undefined && !isName(after)) {
    throw badFilter(`"${JOBS_FILTER_KEY}".after must be a cursor`);
  }
  return {
    ...(jobIds === undefined ? {} : { jobIds }),
    ...(correlationId === undefined ? {} : { correlationId }),
    ...(after === undefined ? {} : { after }),
  };
}

function readNames(value: unknown, field: string): readonly string[] | undefined {
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || value.length > MAX_NAMES || !value.every(isName)) {
    throw badFilter(
      `${field} must be a list of at most ${MAX_NAMES} texts of 1 to ${MAX_NAME_LENGTH} characters`,
    );
  }
  const names = [...new Set(value)];
  if (lengthOf(names) > MAX_NAMES_LENGTH) {
    throw badFilter(`${field} must have at most ${MAX_NAMES_LENGTH} characters in all`);
  }
  return names;
}

function badFilter(problem: string): TidingsError {
  return new TidingsError("BAD_INPUT", `The listen filter was not accepted: ${problem}.`, {
    hint: "Correct the named field and listen again.",
  });
}

/** How many jobs must be looked up to honour a filter, at least one. */
export function weightOf({ resourceSubscriptions, [JOBS_FILTER_KEY]: jobs }: ListenFilter): number {
  return Math.max(1, (resourceSubscriptions?.length ?? 0) + (jobs?.jobIds?.length ?? 0));
}

/**
 * The subset that can be honoured. Jobs that are unknown or another owner's are left out alike; a filter of which
 * nothing remains goes as a whole, because an empty one would mean everything.
 */
export async function honour(
  filter: ListenFilter,
  owner: string,
  tidings: Tidings,
  capabilities: ServerCapabilities,
): Promise<ListenFilter> {
  const { resourceSubscriptions, [JOBS_FILTER_KEY]: jobs, ...lists } = filter;
  const honoured: Record<string, unknown> = {};
  for (const kind of LIST_KINDS) {
    const field = `${kind}ListChanged` as const;
    if (lists[field] && capabilities[kind]?.listChanged) honoured[field] = true;
  }
  const uris: string[] = [];
  for (const uri of resourceSubscriptions ?? []) {
    const jobId = jobIdOf(uri);
    // Below job://{jobId} nothing changes by itself: such URIs could never be told anything.
    if (jobId === undefined ? !uri.startsWith("job:") : (await tidings.find(owner, jobId)) !== undefined)
      uris.push(uri);
  }
  if (uris.length > 0) honoured.resourceSubscriptions = uris;
  const narrowed = jobs === undefined ? undefined : await honourJobs(jobs, owner, tidings);
  if (narrowed !== undefined) honoured[JOBS_FILTER_KEY] = narrowed;
  return honoured;
}

async function honourJobs(
  filter: JobsFilter,
  owner: string,
  tidings: Tidings,
): Promise<JobsFilter | undefined> {
  const { jobIds, ...rest } = filter;
  if (jobIds === undefined) return filter;
  const owned: string[] = [];
  for (const jobId of jobIds) if ((await tidings.find(owner, jobId)) !== undefined) owned.push(jobId);
  if (owned.length > 0) return { jobIds: owned, ...rest };
  return rest.correlationId === undefined ? undefined : rest;
}
