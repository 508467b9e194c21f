/** GiftGenius put together: store, jobs, files and the MCP servers that speak for them. */
import { appendFileSync } from "node:fs";
import type { McpServer } from "@modelcontextprotocol/server";
import { type Clock, createTidings, type Engine, openEngine, type Tidings } from "tidings";
import type { Config } from "./config.ts";
import { createFeedReaders } from "./feed-readers.ts";
import { type BulkInput, bulkGiftAnalysis } from "./jobs/bulk-gift-analysis.ts";
import { refreshProductFeed } from "./jobs/refresh-product-feed.ts";
import { createGiftServer } from "./mcp-server.ts";
import { openProductFeed } from "./product-feed.ts";
import type { Uploads } from "./uploads.ts";
import { openUploads } from "./uploads.ts";

export interface GiftGenius {
  readonly tidings: Tidings;
  readonly uploads: Uploads;
  /** A fresh server for one request or one connection. `serverUrl` is where a host's frame finds us, if it can. */
  createServer(serverUrl: string | undefined): McpServer;
  close(): Promise<void>;
}

/**
 * Opens everything and begins to work.
 *
 * @param options - `uploadsClock`: by which uploaded files grow old. Default: the machine's.
 * @throws TidingsError when the store, the folder for uploads or the catalogue cannot be used.
 */
export async function openGiftGenius(
  config: Config,
  { uploadsClock }: { readonly uploadsClock?: Pick<Clock, "now" | "after"> } = {},
): Promise<GiftGenius> {
  const feed = await openProductFeed(config.catalogueFolder);
  const engine = await openEngine(config.store);
  const { matchLog, retentionMs, uploadLimits } = config;
  const uploads = await openUploads(config.uploadsFolder, () => tidings, {
    retentionMs,
    limits: uploadLimits,
    ...(uploadsClock === undefined ? {} : { clock: uploadsClock }),
  }).catch(async (error: unknown) => {
    await engine.close();
    throw error;
  });
  const readers = createFeedReaders(() => tidings, retentionMs);
  const bulk = bulkGiftAnalysis({
    feed,
    uploads,
    readers,
    readItems: (...request) => tidings.items(...request),
    ...(matchLog === undefined
      ? {}
      : { onMatch: (jobId: string, record: number) => appendFileSync(matchLog, `${jobId} ${record}\n`) }),
  });
  const refresh = refreshProductFeed({ feed, readers });
  const tidings: Tidings = await createTidings({
    store: keepingFiles(engine, bulk.type, uploads),
    leaseMs: config.leaseMs,
    retentionMs,
    retentionBytes: config.retentionBytes,
    jobs: [bulk, refresh],
  });
  uploads.beginSweeping();
  return {
    tidings,
    uploads,
    createServer: (serverUrl) => createGiftServer({ tidings, uploads, feed, bulk, refresh, serverUrl }),
    async close() {
      await tidings.close();
      await uploads.close();
    },
  };
}

/**
 * The engine, which keeps the file of each job of a type from its start on, whoever starts or retries it, and lets go of
 * the file of a job that was not started. What is lost between the two commits is made good when the job runs.
 */
function keepingFiles(engine: Engine, jobType: string, uploads: Uploads): Engine {
  return {
    ...engine,
    async start(request) {
      if (request.jobType !== jobType) return engine.start(request);
      const { owner, jobId } = request;
      const { file } = request.input as BulkInput;
      // A fault of the store says nothing certain of the job: its file stays, for a day at least.
      const outcome = await engine.start(request);
      if (outcome.outcome === "created") await uploads.keepFor(owner, jobId, file).catch(() => undefined);
      else uploads.abandon(owner, file);
      return outcome;
    },
  };
}
