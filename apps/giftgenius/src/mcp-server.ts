/** The MCP server of GiftGenius: two job tools, one reading tool, three resources. */
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/server";
import type { Tidings } from "tidings";
import { ownerOfRequest, registerJob, registerJobTool, toResourceError } from "tidings/mcp";
import type { BulkGiftAnalysis } from "./jobs/bulk-gift-analysis.ts";
import type { RefreshProductFeed } from "./jobs/refresh-product-feed.ts";
import { renderPage } from "./page/page.ts";
import type { ProductFeed } from "./product-feed.ts";
import { PRODUCT_FEED_URI } from "./product-feed.ts";
import { readGiftResource, readRecommendations, recommendationArguments } from "./tools/recommendations.ts";
import { startArguments, toBulkInput } from "./tools/start-arguments.ts";
import type { Uploads } from "./uploads.ts";
import { VERSION } from "./version.ts";

export const PAGE_URI = "ui://giftgenius/page";
const PAGE_MIME = "text/html;profile=mcp-app";

export interface GiftServerParts {
  readonly tidings: Tidings;
  readonly uploads: Uploads;
  readonly feed: ProductFeed;
  readonly bulk: BulkGiftAnalysis;
  readonly refresh: RefreshProductFeed;
  /** Where this server is reached, for the page inside a host's frame; undefined = nowhere, as on stdio. */
  readonly serverUrl: string | undefined;
}

export function createGiftServer({
  tidings,
  uploads,
  feed,
  bulk,
  refresh,
  serverUrl,
}: GiftServerParts): McpServer {
  const server = new McpServer({ name: "giftgenius", version: VERSION });

  registerJob(server, tidings, bulk, {
    tool: "start_bulk_gift_analysis",
    title: "Choose gifts for many employees",
    description:
      "Starts choosing gifts for every employee in a CSV file (columns employee_id, full_name, email, department, interests, budget) and answers at once with a jobId. Follow the job with get_job; read the gifts with get_gift_recommendations.",
    meta: { ui: { resourceUri: PAGE_URI } },
    input: startArguments,
    prepare: (args, { owner }) => toBulkInput(args, { feed, uploads, owner }),
  });

  registerJob(server, tidings, refresh, {
    tool: "refresh_product_feed",
    title: "Read the product feed again",
    description: "Starts reading the shop's catalogue again and answers at once with a jobId.",
  });

  registerJobTool(
    server,
    {
      tool: "get_gift_recommendations",
      title: "Read gift recommendations",
      description:
        "Pages through the recommendations of a bulk gift analysis, in the order of the file. Before the job's end it gives what is ready, with complete: false; complete: true says that nothing more will be added, however the job ended.",
      input: recommendationArguments,
    },
    (args, { owner }) => readRecommendations(tidings, owner, args),
  );

  server.registerResource(
    "gift_recommendations",
    new ResourceTemplate("resource:gifts:{jobId}", { list: undefined }),
    {
      title: "Gift recommendations",
      description: "The result of a bulk gift analysis.",
      mimeType: "application/json",
    },
    async (uri, { jobId }, context) => {
      try {
        const owner = ownerOfRequest(server, context);
        const document = await readGiftResource(tidings, owner, String(jobId));
        return {
          contents: [{ uri: uri.href, mimeType: "application/json", text: JSON.stringify(document) }],
        };
      } catch (error) {
        throw toResourceError(error, uri.href);
      }
    },
  );

  server.registerResource(
    "product_feed",
    PRODUCT_FEED_URI,
    {
      title: "Product feed",
      description: "The catalogue that gifts are chosen from.",
      mimeType: "application/json",
    },
    async (uri) => {
      const { version, gifts } = await feed.latest();
      const document = { version, loadedAt: feed.loadedAt, gifts: gifts.length };
      return { contents: [{ uri: uri.href, mimeType: "application/json", text: JSON.stringify(document) }] };
    },
  );

  server.registerResource(
    "giftgenius_page",
    PAGE_URI,
    { title: "GiftGenius", description: "Start an analysis, watch it, read its gifts.", mimeType: PAGE_MIME },
    async (uri) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: PAGE_MIME,
          text: renderPage({ serverUrl }),
          _meta: {
            ui: { csp: { connectDomains: serverUrl === undefined ? [] : [serverUrl] }, prefersBorder: false },
          },
        },
      ],
    }),
  );

  return server;
}
