/** Writes to jobs. Each function runs inside a transaction that is open on the connection. */
import { TidingsError } from "../../model/error.ts";
import { hasEnded } from "../../model/job.ts";
import type {
  Change,
  ChangeOutcome,
  ClaimOutcome,
  ClaimRequest,
  JobRecord,
  JobTransaction,
  Lease,
  StartOutcome,
  StartRequest,
} from "../engine.ts";
import { changeJob, claimJob, isFull, isOverQuota, startJob, waitFor } from "../transition.ts";
import { JOB_BYTES } from "../weight.ts";
import type { Row } from "./driver.ts";
import type { KnownJobs } from "./known-jobs.ts";
import { findJob, insertEvents, putDocuments, readJob, withDocuments, writeTransition } from "./rows.ts";
import { fromColumn, toColumn, toOptionalColumn } from "./text.ts";
import type { WriteConnection } from "./usage.ts";
import type { WriteScope } from "./writer.ts";

export function start(
  connection: WriteConnection,
  request: StartRequest,
  scope: WriteScope,
  known: KnownJobs,
): StartOutcome {
  const { statement, usage } = connection;
  const owner = toColumn(request.owner);
  if (request.key !== undefined) {
    const row = statement("jobByKey").get(owner, toColumn(request.key));
    if (row !== undefined) {
      const outcome = fromColumn(row.digest as string) === request.digest ? "existing" : "conflict";
      return { outcome, record: readJob(row).record };
    }
  }
  if (request.retryOf !== undefined) {
    const record = findJob(connection, request.owner, request.retryOf)?.record;
    if (record === undefined) return { outcome: "unknown" };
    if (!hasEnded(record.job.status)) return { outcome: "not_ended", record };
    const successor =
      record.retriedAs === undefined ? undefined : findJob(connection, request.owner, record.retriedAs);
    if (successor !== undefined) return { outcome: "existing", record: successor.record };
  }
  if (findJob(connection, request.owner, request.jobId) !== undefined) {
    throw new TidingsError("BAD_INPUT", `A job with the id "${request.jobId}" exists already.`);
  }
  const { kept, events, documents } = startJob(request, scope.moment);
  const inputBytes = Buffer.byteLength(documents.input ?? "");
  if (request.queue !== undefined) {
    const { waitingJobs: jobs, waitingBytes: bytes, bytes: kept } = usage.of(owner);
    if (isFull(request.queue, { jobs, bytes }, inputBytes)) return { outcome: "full", jobs, bytes };
    if (isOverQuota(kept, inputBytes, request.queue)) return { outcome: "over", bytes: kept };
  }
  const position = insertEvents(connection, request.owner, events)[0]!.position;
  const record: JobRecord = { ...kept.record, birth: position - 1, position };
  statement("insertJob").run(
    owner,
    toColumn(request.jobId),
    toColumn(request.jobType),
    record.birth,
    record.position,
    request.maxAttempts,
    toOptionalColumn(request.correlationId),
    toOptionalColumn(request.key),
    toColumn(request.digest),
    inputBytes,
    JSON.stringify(record.counts),
    JSON.stringify(record.job),
  );
  putDocuments(connection, record, documents);
  usage.add(owner, { bytes: JOB_BYTES, waitingJobs: 1, waitingBytes: inputBytes });
  if (request.retryOf !== undefined) {
    known.forget(request.owner, request.retryOf);
    statement("updateSuccessor").run(toColumn(request.jobId), owner, toColumn(request.retryOf));
  }
  scope.touch(request.owner);
  return { outcome: "created", record };
}

export function claim(
  connection: WriteConnection,
  request: ClaimRequest,
  scope: WriteScope,
  known: KnownJobs,
): ClaimOutcome {
  const { statement } = connection;
  const { moment } = scope;
  const now = moment.monotonicMs;
  const gone = JSON.stringify(request.goneHolders.map(toColumn));
  const candidates: Row[] = [];
  const untils: number[] = [];
  for (const jobType of new Set(request.jobTypes.map(toColumn))) {
    statement("readyAfterDelay").run(jobType, now);
    statement("readyAfterRestart").run(jobType, now);
    candidates.push(...statement("expired").all(jobType, now, now, gone));
    // One more than asked for, to know whether more stand ready.
    candidates.push(...statement("ready").all(jobType, request.limit + 1));
    for (const row of [
      statement("nextDelayed").get(jobType),
      statement("nextLeased").get(jobType, now, now, gone),
    ]) {
      if (typeof row?.until === "number") untils.push(row.until);
    }
  }
  candidates.sort((a, b) => (a.birth as number) - (b.birth as number));
  const records: JobRecord[] = [];
  let taken = 0;
  for (const { owner, job_id } of candidates) {
    if (records.length >= request.limit) break;
    taken += 1;
    const before = readJob(statement("job").get(owner!, job_id!)!);
    const { record } = writeTransition(connection, before, claimJob(before, request, moment), moment).kept;
    known.forget(record.owner, record.job.jobId);
    scope.touch(record.owner);
    if (record.job.status === "running") records.push(withDocuments(connection, record));
  }
  if (taken < candidates.length) return { records, nextInMs: 0 };
  return untils.length === 0 ? { records } : { records, nextInMs: Math.min(...untils) - now };
}

export function renew(
  { statement }: WriteConnection,
  leases: readonly Lease[],
  leaseMs: number,
  scope: WriteScope,
  known: KnownJobs,
): readonly Lease[] {
  const { setAt, until } = waitFor(leaseMs, scope.moment);
  return leases.filter(({ owner, jobId, fence }) => {
    known.forget(owner, jobId);
    const { changes } = statement("renewLease").run(setAt, until, toColumn(owner), toColumn(jobId), fence);
    return Number(changes) === 0;
  });
}

/** @param call - Calls the change's callback inside the transaction. */
export function apply(
  connection: WriteConnection,
  change: Change,
  scope: WriteScope,
  known: KnownJobs,
  call: (write: (transaction: JobTransaction) => void | Promise<void>) => Promise<void>,
): ChangeOutcome | Promise<ChangeOutcome> {
  const before = known.get(change.owner, change.jobId) ?? findJob(connection, change.owner, change.jobId);
  if (before === undefined) return { outcome: "unknown" };
  const verdict = changeJob(before, change, scope.moment);
  if (verdict.outcome !== "applied") return { ...verdict, record: before.record };
  const commit = (): ChangeOutcome => {
    const { kept, entries } = writeTransition(connection, before, verdict, scope.moment);
    known.set(kept);
    scope.touch(change.owner);
    return { outcome: "applied", record: kept.record, entries };
  };
  return change.write === undefined ? commit() : call(change.write).then(commit);
}
