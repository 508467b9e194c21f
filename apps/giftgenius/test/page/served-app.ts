/** The application behind the page in these tests: the real one, or the real one with a job whose steps a test plays. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JobContext, JobOutcome, Tidings } from "tidings";
import { createTidings, defineJob } from "tidings";
import type { GiftGenius } from "../../src/app.ts";
import { openGiftGenius } from "../../src/app.ts";
import type { Config } from "../../src/config.ts";
import { readConfig } from "../../src/config.ts";
import { createFeedReaders } from "../../src/feed-readers.ts";
import type { HttpServer } from "../../src/http.ts";
import { serveHttp } from "../../src/http.ts";
import { bulkInput } from "../../src/jobs/bulk-gift-analysis.ts";
import { giftsUri, RECOMMENDATIONS } from "../../src/jobs/gift-result.ts";
import { refreshProductFeed } from "../../src/jobs/refresh-product-feed.ts";
import { createGiftServer } from "../../src/mcp-server.ts";
import { openProductFeed } from "../../src/product-feed.ts";
import { openUploads } from "../../src/uploads.ts";

const RETENTION_MS = 7 * 24 * 3_600_000;

export interface ServedApp {
  readonly url: string;
  readonly app: GiftGenius;
  close(): Promise<void>;
}

/** The real application in this process, with a store in memory. */
export async function serveApp(env: Readonly<Record<string, string>> = {}): Promise<ServedApp> {
  const config = readConfig({ TIDINGS_STORE: "memory:", PORT: "0", ...env });
  return served(await openGiftGenius(config), config);
}

export type Stage = "parse" | "extract_interests" | "match" | "assemble";
export type PlayedRun = (context: JobContext<Stage>) => Promise<JobOutcome>;

/** The application with everything real but the work: `run` is what the bulk analysis does. */
export async function servePlayedApp(run: PlayedRun): Promise<ServedApp> {
  const uploads = await openUploads(undefined, () => tidings, { retentionMs: RETENTION_MS });
  const feed = await openProductFeed(undefined);
  const bulk = defineJob("bulk_gift_analysis", {
    input: bulkInput,
    idPrefix: "bulk_",
    stages: {
      parse: { end: 10, label: "Reading the file and checking its format" },
      extract_interests: { end: 40, label: "Extracting interests and departments" },
      match: { end: 70, label: "Matching gifts by category" },
      assemble: { end: 100, label: "Putting the recommendations together" },
    },
    summary: () => "Choosing 3 gifts for each employee",
    resultResource: giftsUri,
    run: (_input, context) => run(context),
  });
  const readers = createFeedReaders(() => tidings, RETENTION_MS);
  const refresh = refreshProductFeed({ feed, readers });
  const tidings: Tidings = await createTidings({ store: "memory:", jobs: [bulk, refresh] });
  const app: GiftGenius = {
    tidings,
    uploads,
    createServer: (serverUrl) => createGiftServer({ tidings, uploads, feed, bulk, refresh, serverUrl }),
    async close() {
      await tidings.close({ graceMs: 0 });
      await uploads.close();
    },
  };
  return served(app, readConfig({ PORT: "0" }));
}

async function served(app: GiftGenius, config: Config): Promise<ServedApp> {
  const server: HttpServer = await serveHttp(app, config);
  return {
    url: server.url,
    app,
    async close() {
      await server.close();
      await app.close();
    },
  };
}

/** Stores people as the analysis would, and gives what it would return. */
export async function listOf(
  context: JobContext<Stage>,
  people: readonly { readonly fullName: string; readonly department?: string; readonly title?: string }[],
): Promise<JobOutcome> {
  const recommendations = people.map(
    ({ fullName, department = "Sales", title = "A pot of honey" }, index) => ({
      employeeId: `E${index + 1}`,
      email: `person${index + 1}@example.com`,
      fullName,
      department,
      budgetCents: 5_000,
      gifts: [
        { sku: `GG-${index}`, title, priceCents: 1_290, category: "Kitchen", reason: `For ${fullName}` },
      ],
    }),
  );
  await context.checkpoint({}, (job) => job.append(RECOMMENDATIONS, recommendations));
  const counts = { total: people.length, accepted: people.length, rejected: 0, warnings: 0 };
  context.count(counts);
  return {
    summary: `${people.length} people`,
    result: {
      currency: "USD",
      counts,
      totals: { employees: people.length, gifts: people.length, firstChoiceCents: 1_290 * people.length },
      warnings: [],
      rejected: [],
    },
  };
}

/** A promise that the test resolves when it wants the job to go on. */
export interface Gate {
  readonly passed: Promise<void>;
  open(): void;
}

export function gate(): Gate {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

/** A folder of its own, and the way to remove it. */
export async function temporaryFolder(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), "giftgenius-page-"));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}
