/** What is told instead of events that are no longer kept: the present state of the jobs they were about. */
import type { JobSnapshot } from "../../runtime/snapshot.ts";
import type { Tidings } from "../../runtime/tidings.ts";

/** At most so many; the rest is read with `list_my_jobs`. */
const MAX_SNAPSHOTS = 100;

/** Snapshots of the jobs that a filter names; of the owner's newest when it names none. */
export async function snapshotsOf(
  tidings: Tidings,
  owner: string,
  filter: { readonly jobIds?: readonly string[]; readonly correlationId?: string },
): Promise<readonly JobSnapshot[]> {
  const snapshots = new Map<string, JobSnapshot>();
  for (const jobId of filter.jobIds?.slice(0, MAX_SNAPSHOTS) ?? []) {
    const snapshot = await tidings.find(owner, jobId);
    if (snapshot !== undefined) snapshots.set(jobId, snapshot);
  }
  if (filter.jobIds === undefined || filter.correlationId !== undefined) {
    const { jobs } = await tidings.list(owner, {
      limit: MAX_SNAPSHOTS,
      ...(filter.correlationId === undefined ? {} : { correlationId: filter.correlationId }),
    });
    for (const job of jobs) snapshots.set(job.jobId, job);
  }
  return [...snapshots.values()];
}
