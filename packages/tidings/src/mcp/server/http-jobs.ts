/**
 * Plain HTTP for browsers and scripts.
 *
 *   GET /jobs/{jobId}          the snapshot, as get_job gives it
 *   POST /jobs/{jobId}/cancel  stops the job, as cancel_job does; the snapshot
 *   GET /jobs/{jobId}/events   the job's story as server-sent events, from ?after= or Last-Event-ID, until its ending
 *   GET /events                the owner's whole log, from now or from a cursor, without an end; ?resourceId= narrows
 *
 *   id: the cursor   event: the type   data: the event, flat, in one line
 *
 * A cursor older than what is kept gives a first `event: snapshot`. A reconnect behind the end of a story gives 204.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import { hasEnded, isEndType } from "../../model/job.ts";
import { toFlat } from "../../model/projection/notification.ts";
import { noteReader } from "../../runtime/reader.ts";
import type { Delivery, Tidings } from "../../runtime/tidings.ts";
import { snapshotsOf } from "./gap-snapshots.ts";
import { sendJson } from "./http-message.ts";
import type { Streams } from "./http-streams.ts";
import { pushTo } from "./push.ts";
import type { SseFrame, SseStream } from "./sse.ts";
import { formatFrame, SSE_HEADERS } from "./sse.ts";

export interface PlainRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly query: URLSearchParams;
  readonly owner: string;
}

export interface PlainOptions {
  readonly tidings: Tidings;
  readonly streams: Streams;
  readonly clock: Clock;
  readonly onError: (error: unknown, during: string) => void;
}

const ID_PATTERN = /^[!-~]{1,512}$/;
const PAGE = 200;

/** @throws TidingsError JOB_NOT_FOUND */
export async function serveSnapshot(
  { res, owner }: PlainRequest,
  jobId: string,
  { tidings }: PlainOptions,
): Promise<void> {
  sendJson(res, 200, await snapshotOf(tidings, owner, jobId));
}

/** @throws TidingsError JOB_NOT_FOUND */
export async function serveCancel(
  { res, owner }: PlainRequest,
  jobId: string,
  { tidings }: PlainOptions,
): Promise<void> {
  await snapshotOf(tidings, owner, jobId);
  sendJson(res, 200, await tidings.cancel(owner, jobId, { canceledBy: "user" }));
}

/** @throws TidingsError before the first byte: JOB_NOT_FOUND, BAD_CURSOR, TOO_MANY_REQUESTS */
export async function serveJobEvents(
  request: PlainRequest,
  jobId: string,
  options: PlainOptions,
): Promise<void> {
  const { req, res, owner } = request;
  const { tidings, streams } = options;
  const snapshot = await snapshotOf(tidings, owner, jobId);
  const after = cursorOf(request);
  const position = after === undefined ? {} : { after };
  const first = await tidings.read({ owner, jobIds: [jobId], limit: 1, ...position });
  const ended = hasEnded(snapshot.status);
  if (ended && first.events.length === 0 && !first.truncated) {
    res.writeHead(204, { "Cache-Control": "no-store" });
    res.end();
    return;
  }
  if (req.method === "HEAD") return sendHead(res);
  const stream = streams.open(owner, res);
  const note = (cursor: string) =>
    noteReader(tidings, options.clock, { owner, jobId, name: req.headers["user-agent"], cursor });
  await run(stream, options, () =>
    ended
      ? replay(stream, request, jobId, after, tidings)
      : follow(stream, request, jobId, after, tidings, note),
  );
}

/** @throws TidingsError before the first byte: BAD_CURSOR, TOO_MANY_REQUESTS */
export async function serveLog(request: PlainRequest, options: PlainOptions): Promise<void> {
  const { req, res, owner, query } = request;
  const { tidings, streams } = options;
  const resourceIds = query.getAll("resourceId");
  const filter = resourceIds.length === 0 ? {} : { resourceIds };
  const after = cursorOf(request) ?? (await tidings.head(owner));
  await tidings.read({ owner, jobIds: [], after, limit: 1 });
  if (req.method === "HEAD") return sendHead(res);
  // The position goes first, so that a browser which loses the connection before any event knows where to go on.
  const stream = streams.open(owner, res, { opening: { id: after } });
  await run(stream, options, () =>
    pushTo(
      stream,
      tidings,
      { owner, ...filter, after },
      {
        toText,
        async gapToFrames(cursor) {
          const jobs = resourceIds.length === 0 ? await snapshotsOf(tidings, owner, {}) : [];
          return [{ id: cursor, event: "snapshot", data: { jobs, cursor } }];
        },
      },
    ),
  );
}

/** A job that goes on: from the cursor to its ending, as it happens. */
async function follow(
  stream: SseStream,
  { owner }: PlainRequest,
  jobId: string,
  after: string | undefined,
  tidings: Tidings,
  note: (cursor: string) => void,
): Promise<void> {
  const request = { owner, jobIds: [jobId], ...(after === undefined ? {} : { after }) };
  let told = after;
  await pushTo(stream, tidings, request, {
    toText,
    onTold({ cursor }) {
      told = cursor;
      note(cursor);
    },
    gapToFrames: async (id) => [{ id, event: "snapshot", data: await tidings.get(owner, jobId) }],
    isLast: ({ event }) => isEndType(event.type),
  });
  if (told !== undefined) note(told);
}

/** A job that has ended: what is kept of its story after the cursor, with what was told behind its ending. */
async function replay(
  stream: SseStream,
  { owner }: PlainRequest,
  jobId: string,
  after: string | undefined,
  tidings: Tidings,
): Promise<void> {
  let cursor = after;
  for (;;) {
    const position = cursor === undefined ? {} : { after: cursor };
    const page = await tidings.read({ owner, jobIds: [jobId], limit: PAGE, ...position });
    if (page.truncated) {
      // With nothing behind it, the snapshot moves the reader to the end; otherwise the next event does.
      const id = page.events.length === 0 ? page.cursor : cursor;
      const data = await tidings.get(owner, jobId);
      await stream.send({ event: "snapshot", data, ...(id === undefined ? {} : { id }) });
    }
    for (let texts = page.events.map(toText); texts.length > 0; texts = texts.slice(stream.take(texts))) {
      if (!(await stream.room())) return;
    }
    if (!page.hasMore) return;
    cursor = page.cursor;
  }
}

async function run(stream: SseStream, { onError }: PlainOptions, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    onError(error, "an event stream");
  }
  // Ended in good order or not, a reader goes on from its last cursor.
  stream.end();
  await stream.closed;
}

const TEXTS = new WeakMap<Delivery, string>();

/** Every stream is given the same objects, so a frame is written out once for all of them. */
function toText(delivery: Delivery): string {
  let text = TEXTS.get(delivery);
  if (text === undefined) {
    text = formatFrame(toFrame(delivery));
    TEXTS.set(delivery, text);
  }
  return text;
}

function toFrame({ event, cursor }: Delivery): SseFrame {
  return { id: cursor, event: event.type, data: toFlat(event) };
}

/** The header wins: a browser that reconnects repeats the address with its old `?after=`. */
function cursorOf({ req, query }: PlainRequest): string | undefined {
  const header = req.headers["last-event-id"];
  if (Array.isArray(header)) {
    throw new TidingsError("BAD_CURSOR", "Last-Event-ID was sent more than once.", {
      hint: "Send one cursor.",
    });
  }
  return header ?? query.get("after") ?? undefined;
}

/** An id that could not be one is answered exactly like one that is unknown. */
function snapshotOf(tidings: Tidings, owner: string, jobId: string) {
  return tidings.get(owner, ID_PATTERN.test(jobId) ? jobId : "");
}

function sendHead(res: ServerResponse): void {
  res.writeHead(200, SSE_HEADERS);
  res.end();
}
