/** GiftGenius put together: store, jobs, files and the MCP servers that speak for them. */
import { appendFileSync } from "node:fs";
import type { McpServer } from "@modelcontextprotocol/server";
import { createTidings, openEngine, type Tidings } from "tidings";
import type { Config } from "./config.ts";
import { bulkGiftAnalysis } from "./jobs/bulk-gift-analysis.ts";
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

/** @throws TidingsError when the store, the folder for uploads or the catalogue cannot be used. */
export async function openGiftGenius(config: Config): Promise<GiftGenius> {
  const feed = await openProductFeed(config.catalogueFolder);
  const engine = await openEngine(config.store);
  const uploads = await openUploads(config.uploadsFolder).catch(async (error: unknown) => {
    await engine.close();
    throw error;
  });
  const { matchLog } = config;
  const bulk = bulkGiftAnalysis({
    feed,
    uploads,
    readItems: (...request) => tidings.items(...request),
    ...(matchLog === undefined
      ? {}
      : { onMatch: (jobId: string, record: number) => appendFileSync(matchLog, `${jobId} ${record}\n`) }),
  });
  const refresh = refreshProductFeed(feed);
  const tidings = await createTidings({
    store: engine,
    leaseMs: config.leaseMs,
    retentionMs: config.retentionMs,
    retentionBytes: config.retentionBytes,
    jobs: [bulk, refresh],
  });
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
