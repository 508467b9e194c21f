/** Reads. Each function sees one state of the store: that of the read transaction around it. */
import type { DocumentName, EventFilter, JobRecord, ListRequest, Reading } from "../engine.ts";
import { fromJson } from "../json.ts";
import type { Connection, Row } from "./driver.ts";
import { readEntry, readJob } from "./rows.ts";
import type { StatementName } from "./sql.ts";
import { toColumn } from "./text.ts";

export function document(
  { statement }: Connection,
  owner: string,
  jobId: string,
  name: DocumentName,
): unknown {
  const row = statement("document").get(toColumn(owner), toColumn(jobId), name);
  return fromJson(row?.body as string | undefined);
}

export function list({ statement }: Connection, owner: string, request: ListRequest): readonly JobRecord[] {
  const { status, correlationId, before = Number.MAX_SAFE_INTEGER } = request;
  const range = [before, Math.max(0, request.limit)] as const;
  const column = toColumn(owner);
  const rows =
    correlationId === undefined
      ? status === undefined
        ? statement("list").all(column, ...range)
        : statement("listByStatus").all(column, status, ...range)
      : status === undefined
        ? statement("listByCorrelation").all(column, toColumn(correlationId), ...range)
        : statement("listByBoth").all(column, toColumn(correlationId), status, ...range);
  return rows.map((row) => readJob(row).record);
}

type Alternative = readonly [subject: "Job" | "Correlation" | "Resource", key: string];

export function read(
  connection: Connection,
  owner: string,
  filter: EventFilter,
  after: number,
  limit: number,
): Reading {
  const { statement } = connection;
  const column = toColumn(owner);
  const alternatives = alternativesOf(filter);
  const wanted = Math.max(0, limit);
  const rows = findRows(connection, column, alternatives, after, wanted + 1);
  const trimmed = Number(statement("ownerTrimmed").get(column)?.trimmed_through ?? 0);
  const head = Math.max(Number(statement("headOfOwner").get(column)?.position ?? 0), trimmed);
  const entries = rows.slice(0, wanted).map(readEntry);
  return {
    entries,
    through: rows.length > wanted ? (entries.at(-1)?.position ?? after) : Math.max(head, after),
    head,
    truncated: isTruncated(connection, column, alternatives, after, trimmed),
  };
}

/** What the filter asks for; undefined when it narrows nothing. */
function alternativesOf({ jobIds, correlationId, resourceIds }: EventFilter): Alternative[] | undefined {
  if (jobIds === undefined && correlationId === undefined && resourceIds === undefined) return undefined;
  return [
    ...[...new Set(jobIds)].map((jobId) => ["Job", toColumn(jobId)] as const),
    ...(correlationId === undefined ? [] : [["Correlation", toColumn(correlationId)] as const]),
    ...[...new Set(resourceIds)].map((resourceId) => ["Resource", toColumn(resourceId)] as const),
  ];
}

function findRows(
  { statement }: Connection,
  owner: string,
  alternatives: readonly Alternative[] | undefined,
  after: number,
  limit: number,
): Row[] {
  if (alternatives === undefined) return statement("eventsOfOwner").all(owner, after, limit);
  const search = (form: "events" | "positions", [subject, key]: Alternative) =>
    statement(`${form}Of${subject}` satisfies StatementName).all(owner, key, after, limit);
  const [only] = alternatives;
  if (alternatives.length === 1 && only !== undefined) return search("events", only);
  // Positions come from the indexes alone; bodies are fetched only of what is handed out.
  const positions = new Set<number>();
  for (const alternative of alternatives) {
    for (const { position } of search("positions", alternative)) positions.add(position as number);
  }
  return [...positions]
    .sort((a, b) => a - b)
    .slice(0, limit)
    .map((position) => statement("eventAt").get(owner, position)!);
}

function isTruncated(
  { statement }: Connection,
  owner: string,
  alternatives: readonly Alternative[] | undefined,
  after: number,
  trimmed: number,
): boolean {
  if (trimmed <= after) return false;
  if (alternatives === undefined) return true;
  return alternatives.some(([subject, key]) => {
    const row = subject === "Job" ? statement("jobTrimmed").get(owner, key) : undefined;
    return row === undefined ? true : (row.trimmed_through as number) > after;
  });
}

export function items(
  { statement }: Connection,
  owner: string,
  jobId: string,
  collection: string,
  offset: number,
  limit: number,
): { readonly items: readonly unknown[]; readonly total: number } {
  const key = [toColumn(owner), toColumn(jobId), toColumn(collection)] as const;
  const last = statement("lastChunk").get(...key);
  const total = last === undefined ? 0 : (last.first as number) + (last.count as number);
  const from = Math.max(0, offset);
  const end = from + Math.max(0, limit);
  const chunk = end > from ? statement("chunkAt").get(...key, from) : undefined;
  if (chunk === undefined) return { items: [], total };
  const found: unknown[] = [];
  for (const row of statement("chunks").all(...key, chunk.first!, end)) {
    const first = row.first as number;
    const all = JSON.parse(row.body as string) as unknown[];
    for (const item of all.slice(Math.max(0, from - first), Math.max(0, end - first))) found.push(item);
  }
  return { items: found, total };
}
