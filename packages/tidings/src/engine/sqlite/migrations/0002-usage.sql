-- What each owner keeps and has waiting (usage.ts; weight.ts has the numbers).
CREATE TABLE tidings_usage (
  owner TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL,
  waiting_jobs INTEGER NOT NULL,
  waiting_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The oldest of one owner.
CREATE INDEX tidings_job_ended_of_owner ON tidings_job (owner, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tidings_event_age_of_owner ON tidings_event (owner, published_at) WHERE published_at IS NOT NULL;

INSERT INTO tidings_usage
  SELECT owner, sum(bytes), sum(waiting_jobs), sum(waiting_bytes) FROM (
    SELECT owner, 1024 AS bytes, status = 'pending' AS waiting_jobs, iif(status = 'pending', input_bytes, 0) AS waiting_bytes
      FROM tidings_job
    UNION ALL SELECT owner, 192 + octet_length(body), 0, 0 FROM tidings_event
    UNION ALL SELECT owner, octet_length(body), 0, 0 FROM tidings_document
    -- A chunk's brackets and commas are one byte more than its items.
    UNION ALL SELECT owner, octet_length(body) - 1, 0, 0 FROM tidings_item
    UNION ALL SELECT owner, 192 + octet_length(body), 0, 0 FROM tidings_value
  ) GROUP BY owner;
