/**
 * Every statement, by name. All that concern an owner are bound to it; those that are not (claims, wake-ups, pruning)
 * serve the process itself. Placeholders are plain `?`: node:sqlite takes numbered ones for named ones.
 */
const JOB_COLUMNS =
  "owner, job_id, birth, position, fence, set_at, until, holder, max_attempts, digest, retried_as, counts, job";
const DELAYED = "status = 'pending' AND until > 0";
const VERSION = "owner = ? AND job_id = ? AND fence = ? AND position = ?";

export const SQL = {
  begin: "BEGIN",
  beginWriting: "BEGIN IMMEDIATE",
  commit: "COMMIT",
  savepoint: "SAVEPOINT operation",
  rollbackToSavepoint: "ROLLBACK TO operation",
  releaseSavepoint: "RELEASE operation",

  // Jobs
  job: `SELECT ${JOB_COLUMNS} FROM tidings_job WHERE owner = ? AND job_id = ?`,
  jobByKey: `SELECT ${JOB_COLUMNS} FROM tidings_job WHERE owner = ? AND idempotency_key = ?`,
  insertJob: `INSERT INTO tidings_job
    (owner, job_id, job_type, status, birth, position, fence, set_at, until, max_attempts, correlation_id, idempotency_key, digest, input_bytes, counts, job)
    VALUES (?, ?, ?, 'pending', ?, ?, 0, 0, 0, ?, ?, ?, ?, ?, ?, ?)`,
  inputBytes: "SELECT input_bytes FROM tidings_job WHERE owner = ? AND job_id = ?",
  // Without the columns of the state, no index is touched: most changes are reports of progress.
  updateStory: `UPDATE tidings_job SET position = ?, counts = ?, job = ? WHERE ${VERSION}`,
  updateState: `UPDATE tidings_job SET status = ?, fence = ?, set_at = ?, until = ?, holder = ?, ended_at = ?,
    position = ?, counts = ?, job = ? WHERE ${VERSION}`,
  updateSuccessor: "UPDATE tidings_job SET retried_as = ? WHERE owner = ? AND job_id = ?",
  renewLease: `UPDATE tidings_job SET set_at = ?, until = ?
    WHERE owner = ? AND job_id = ? AND status = 'running' AND fence = ?`,
  putDocument: `INSERT INTO tidings_document (owner, job_id, name, body) VALUES (?, ?, ?, ?)
    ON CONFLICT (owner, job_id, name) DO UPDATE SET body = excluded.body`,
  documentBytes: `SELECT octet_length(body) AS bytes FROM tidings_document
    WHERE owner = ? AND job_id = ? AND name = ?`,
  document: "SELECT body FROM tidings_document WHERE owner = ? AND job_id = ? AND name = ?",
  documents: "SELECT name, body FROM tidings_document WHERE owner = ? AND job_id = ?",

  // Lists, newest first. The unary plus keeps the planner on the index that fits better.
  list: `SELECT ${JOB_COLUMNS} FROM tidings_job WHERE owner = ? AND birth < ? ORDER BY birth DESC LIMIT ?`,
  listByStatus: `SELECT ${JOB_COLUMNS} FROM tidings_job WHERE owner = ? AND status = ? AND birth < ?
    ORDER BY birth DESC LIMIT ?`,
  listByCorrelation: `SELECT ${JOB_COLUMNS} FROM tidings_job WHERE owner = ? AND correlation_id = ? AND birth < ?
    ORDER BY birth DESC LIMIT ?`,
  listByBoth: `SELECT ${JOB_COLUMNS} FROM tidings_job WHERE owner = ? AND correlation_id = ? AND +status = ? AND birth < ?
    ORDER BY birth DESC LIMIT ?`,

  // Claims, per job type. Delays that are over become 0, so that the ready jobs stand in one index, oldest first.
  readyAfterDelay: `UPDATE tidings_job SET set_at = 0, until = 0 WHERE ${DELAYED} AND job_type = ? AND until <= ?`,
  readyAfterRestart: `UPDATE tidings_job SET set_at = 0, until = 0 WHERE ${DELAYED} AND job_type = ? AND set_at > ?`,
  ready: `SELECT owner, job_id, birth FROM tidings_job WHERE status = 'pending' AND until = 0 AND job_type = ?
    ORDER BY birth LIMIT ?`,
  expired: `SELECT owner, job_id, birth FROM tidings_job WHERE status = 'running' AND job_type = ?
    AND (until <= ? OR set_at > ? OR holder IN (SELECT value FROM json_each(?)))`,
  nextDelayed: `SELECT min(until) AS until FROM tidings_job WHERE ${DELAYED} AND job_type = ?`,
  nextLeased: `SELECT min(until) AS until FROM tidings_job WHERE status = 'running' AND job_type = ?
    AND until > ? AND set_at <= ? AND holder NOT IN (SELECT value FROM json_each(?))`,
  holders: "SELECT DISTINCT holder FROM tidings_job WHERE status = 'running' AND holder IS NOT NULL",

  // The log
  insertEvent: `INSERT INTO tidings_event (owner, job_id, seq, resource_id, correlation_id, event_id, published_at, type, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  eventsOfOwner:
    "SELECT position, body FROM tidings_event WHERE owner = ? AND position > ? ORDER BY position LIMIT ?",
  eventsOfJob: `SELECT position, body FROM tidings_event WHERE owner = ? AND job_id = ? AND position > ?
    ORDER BY position LIMIT ?`,
  eventsOfCorrelation: `SELECT position, body FROM tidings_event WHERE owner = ? AND correlation_id = ? AND position > ?
    ORDER BY position LIMIT ?`,
  eventsOfResource: `SELECT position, body FROM tidings_event WHERE owner = ? AND resource_id = ? AND position > ?
    ORDER BY position LIMIT ?`,
  positionsOfJob: `SELECT position FROM tidings_event WHERE owner = ? AND job_id = ? AND position > ?
    ORDER BY position LIMIT ?`,
  positionsOfCorrelation: `SELECT position FROM tidings_event WHERE owner = ? AND correlation_id = ? AND position > ?
    ORDER BY position LIMIT ?`,
  positionsOfResource: `SELECT position FROM tidings_event WHERE owner = ? AND resource_id = ? AND position > ?
    ORDER BY position LIMIT ?`,
  eventAt: "SELECT position, body FROM tidings_event WHERE owner = ? AND position = ?",
  eventById: "SELECT position, body FROM tidings_event WHERE owner = ? AND event_id = ?",
  headOfOwner: "SELECT position FROM tidings_event WHERE owner = ? ORDER BY position DESC LIMIT 1",
  headOfLog: "SELECT max(position) AS position FROM tidings_event",
  // Left alone, the planner walks the whole index of owners.
  ownersAfter: "SELECT DISTINCT owner FROM tidings_event NOT INDEXED WHERE position > ?",
  dataVersion: "PRAGMA data_version",
  ownerTrimmed: "SELECT trimmed_through FROM tidings_owner WHERE owner = ?",
  jobTrimmed: "SELECT trimmed_through FROM tidings_job WHERE owner = ? AND job_id = ?",

  // Collections and values
  lastChunk: `SELECT first, count FROM tidings_item WHERE owner = ? AND job_id = ? AND collection = ?
    ORDER BY first DESC LIMIT 1`,
  chunkAt: `SELECT first FROM tidings_item WHERE owner = ? AND job_id = ? AND collection = ? AND first <= ?
    ORDER BY first DESC LIMIT 1`,
  chunks: `SELECT first, count, body FROM tidings_item
    WHERE owner = ? AND job_id = ? AND collection = ? AND first >= ? AND first < ? ORDER BY first`,
  insertChunk: `INSERT INTO tidings_item (owner, job_id, collection, first, count, body) VALUES (?, ?, ?, ?, ?, ?)`,
  value:
    "SELECT body FROM tidings_value WHERE owner = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)",
  valuesFrom: `SELECT key, body FROM tidings_value WHERE owner = ? AND key >= ? AND key < ?
    AND (expires_at IS NULL OR expires_at > ?) ORDER BY key`,
  putValue: `INSERT INTO tidings_value (owner, key, body, expires_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (owner, key) DO UPDATE SET body = excluded.body, expires_at = excluded.expires_at`,
  valueBytes: "SELECT octet_length(body) AS bytes FROM tidings_value WHERE owner = ? AND key = ?",
  deleteValue: "DELETE FROM tidings_value WHERE owner = ? AND key = ?",

  // What owners keep
  usage: "SELECT bytes, waiting_jobs, waiting_bytes FROM tidings_usage WHERE owner = ?",
  addUsage: `INSERT INTO tidings_usage (owner, bytes, waiting_jobs, waiting_bytes) VALUES (?, ?, ?, ?)
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes,
      waiting_jobs = waiting_jobs + excluded.waiting_jobs, waiting_bytes = waiting_bytes + excluded.waiting_bytes`,
  deleteNoUsage: "DELETE FROM tidings_usage WHERE owner = ? AND bytes = 0",
  usagesAbove: "SELECT owner, bytes FROM tidings_usage WHERE owner > ? AND bytes > ? ORDER BY owner LIMIT ?",

  // Pruning
  deleteExpired: `DELETE FROM tidings_value WHERE rowid IN
    (SELECT rowid FROM tidings_value WHERE expires_at <= ? LIMIT ?)
    RETURNING owner, octet_length(body) AS bytes`,
  firstEnded: `SELECT owner, job_id, position FROM tidings_job WHERE owner = ? AND ended_at IS NOT NULL
    ORDER BY ended_at LIMIT ?`,
  firstPublished: `SELECT owner, position FROM tidings_event WHERE owner = ? AND published_at IS NOT NULL
    ORDER BY published_at LIMIT ?`,
  wordyJobs: `SELECT owner, job_id FROM tidings_job WHERE ended_at <= ? AND ended_at IS NOT NULL AND compact = 0
    ORDER BY ended_at LIMIT ?`,
  reportsOfJob: `SELECT position, json_extract(body, '$.stageKey') AS stage_key FROM tidings_event
    WHERE owner = ? AND job_id = ? AND position >= ? AND type = 'job.progress' ORDER BY position LIMIT ?`,
  markCompact: "UPDATE tidings_job SET compact = 1 WHERE owner = ? AND job_id = ?",
  pageCount: "PRAGMA page_count",
  freePages: "PRAGMA freelist_count",
  pageSize: "PRAGMA page_size",
  endedJobs: "SELECT owner, job_id, position FROM tidings_job WHERE ended_at <= ? ORDER BY ended_at LIMIT ?",
  deleteJob: "DELETE FROM tidings_job WHERE owner = ? AND job_id = ?",
  deleteDocuments: `DELETE FROM tidings_document WHERE owner = ? AND job_id = ?
    RETURNING octet_length(body) AS bytes`,
  deleteItems: `DELETE FROM tidings_item WHERE rowid IN
    (SELECT rowid FROM tidings_item WHERE owner = ? AND job_id = ? LIMIT ?)
    RETURNING octet_length(body) AS bytes`,
  deleteEventsOfJob: `DELETE FROM tidings_event WHERE position IN
    (SELECT position FROM tidings_event WHERE owner = ? AND job_id = ? LIMIT ?)
    RETURNING octet_length(body) AS bytes`,
  deleteEvent:
    "DELETE FROM tidings_event WHERE owner = ? AND position = ? RETURNING octet_length(body) AS bytes",
  oldPublished:
    "SELECT owner, position FROM tidings_event WHERE published_at <= ? ORDER BY published_at LIMIT ?",
  nextOwner: "SELECT owner FROM tidings_event WHERE owner > ? ORDER BY owner LIMIT 1",
  nthNewest: "SELECT position FROM tidings_event WHERE owner = ? ORDER BY position DESC LIMIT 1 OFFSET ?",
  oldEvents: `SELECT position, job_id FROM tidings_event WHERE owner = ? AND position > ? AND position < ?
    ORDER BY position LIMIT ?`,
  jobEnded: "SELECT ended_at FROM tidings_job WHERE owner = ? AND job_id = ?",
  trimJob: `UPDATE tidings_job SET trimmed_through = max(trimmed_through, ?) WHERE owner = ? AND job_id = ?`,
  trimOwner: `INSERT INTO tidings_owner (owner, trimmed_through) VALUES (?, ?)
    ON CONFLICT (owner) DO UPDATE SET trimmed_through = max(trimmed_through, excluded.trimmed_through)`,
} as const;

export type StatementName = keyof typeof SQL;
