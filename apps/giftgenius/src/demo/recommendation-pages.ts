/** All recommendations of a job, page by page, through the tool that an agent would use. */
import type { Client } from "@modelcontextprotocol/client";
import type { Recommendation } from "../jobs/gift-result.ts";
import type { RecommendationPage } from "../tools/recommendations.ts";

export async function* recommendationsOf(client: Client, jobId: string): AsyncGenerator<Recommendation> {
  let cursor: string | undefined;
  do {
    const answer = await client.callTool({
      name: "get_gift_recommendations",
      arguments: { jobId, limit: 500, ...(cursor === undefined ? {} : { cursor }) },
    });
    const page = answer.structuredContent as unknown as RecommendationPage;
    yield* page.recommendations;
    cursor = page.nextCursor;
  } while (cursor !== undefined);
}
