/**
 * Jobs that may end their process, and jobs that only ran beside such a one. Nobody can tell them apart, so a job whose
 * next loss would be its last runs alone, and at most one of the two is failed for what the other did.
 */
import type { Engine, JobRecord } from "../engine/engine.ts";
import { TidingsError } from "../model/error.ts";

/** Longer stories are not read for it: such a job counts as lost. */
const LONGEST_STORY = 2_000;

/** Whether the job was lost with its process before, and fails when that happens once more. */
export async function isLastChance(engine: Engine, record: JobRecord): Promise<boolean> {
  const { owner, birth, maxAttempts, job } = record;
  if (job.failures === 0 || job.failures + 1 < maxAttempts) return false;
  if (job.seq > LONGEST_STORY) return true;
  const { entries } = await engine.read(owner, { jobIds: [job.jobId] }, birth, LONGEST_STORY);
  for (const { event } of entries.toReversed()) {
    if (event.type !== "job.retrying" || !("error" in event)) continue;
    const { code } = event.error as { readonly code: string };
    if (code !== "WORKER_STOPPED") return code === "WORKER_LOST";
  }
  return false;
}

/** Gives a claimed job back before its handler was called; the attempt does not count. */
export async function postpone(engine: Engine, { owner, job, fence }: JobRecord): Promise<void> {
  const { jobId } = job;
  const error = new TidingsError(
    "WORKER_STOPPED",
    `Job ${jobId} waits while another one runs that may end the process; this attempt does not count.`,
  );
  await engine.apply({ owner, jobId, fence, command: { type: "retry", error: error.toInfo(), delayMs: 0 } });
}
