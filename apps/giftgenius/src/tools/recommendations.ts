/** How the result of a bulk analysis is read: as a resource with the first page, and page by page through a tool. */
import { hasEnded, type Tidings, TidingsError } from "tidings";
import { z } from "zod";
import type { Recommendation, ResultSummary } from "../jobs/gift-result.ts";
import { RECOMMENDATIONS } from "../jobs/gift-result.ts";

const DEFAULT_PAGE = 100;
const LARGEST_PAGE = 500;

export const recommendationArguments = z.strictObject({
  jobId: z.string().min(1),
  cursor: z.string().min(1).optional().describe("nextCursor of the page before"),
  limit: z.int().min(1).max(LARGEST_PAGE).default(DEFAULT_PAGE),
});

export interface RecommendationPage {
  readonly recommendations: readonly Recommendation[];
  readonly nextCursor?: string;
  /** How many recommendations are ready. */
  readonly total: number;
  /** Nothing more will be added: the job has ended. Whether it completed is what `get_job` says. */
  readonly complete: boolean;
}

/** @throws TidingsError JOB_NOT_FOUND, BAD_CURSOR */
export async function readRecommendations(
  tidings: Tidings,
  owner: string,
  { jobId, cursor, limit = DEFAULT_PAGE }: { jobId: string; cursor?: string | undefined; limit?: number },
): Promise<RecommendationPage> {
  const { status } = await bulkJobOf(tidings, owner, jobId);
  const purpose = `${RECOMMENDATIONS}:${jobId}`;
  const offset = cursor === undefined ? 0 : tidings.openPage(owner, purpose, cursor);
  const { items, total } = await tidings.items(owner, jobId, RECOMMENDATIONS, { offset, limit });
  const next = offset + items.length;
  return {
    recommendations: items as readonly Recommendation[],
    ...(next < total ? { nextCursor: tidings.sealPage(owner, purpose, next) } : {}),
    total,
    complete: hasEnded(status),
  };
}

/**
 * The document behind `resource:gifts:{jobId}`.
 *
 * @throws TidingsError JOB_NOT_FOUND; JOB_NOT_ENDED before the end; NO_RESULT when the job failed or was canceled.
 */
export async function readGiftResource(tidings: Tidings, owner: string, jobId: string): Promise<object> {
  const { status } = await bulkJobOf(tidings, owner, jobId);
  if (status === "pending" || status === "running") {
    throw new TidingsError("JOB_NOT_ENDED", `Job ${jobId} is ${status}; its result is not complete.`, {
      hint: "Wait for job.completed, or read what is ready with get_gift_recommendations.",
    });
  }
  if (status !== "completed") {
    throw new TidingsError("NO_RESULT", `Job ${jobId} is ${status} and has no result.`, {
      hint: "Read what was stored before its end with get_gift_recommendations, or retry the job.",
    });
  }
  const { currency, counts, totals, warnings, rejected } = (await tidings.result(
    owner,
    jobId,
  )) as ResultSummary;
  const { recommendations, nextCursor } = await readRecommendations(tidings, owner, { jobId });
  return {
    jobId,
    currency,
    counts,
    totals,
    warnings,
    rejected,
    recommendations,
    ...(nextCursor === undefined ? {} : { nextCursor }),
  };
}

async function bulkJobOf(tidings: Tidings, owner: string, jobId: string) {
  const snapshot = await tidings.get(owner, jobId);
  if (snapshot.jobType === "bulk_gift_analysis") return snapshot;
  throw new TidingsError(
    "BAD_INPUT",
    `Job ${jobId} is a ${snapshot.jobType}; only a bulk_gift_analysis has recommendations.`,
  );
}
