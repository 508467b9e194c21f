-- Texts that come from outside stand in columns in the form of `toColumn` (text.ts): exact, without NUL.
-- No UNIQUE (job_id, seq): the one writer and the job row's compare-and-set give it, and it costs a third of the speed.

CREATE TABLE tidings_store (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  secret BLOB NOT NULL
) STRICT;

CREATE TABLE tidings_owner (
  owner TEXT PRIMARY KEY,
  trimmed_through INTEGER NOT NULL
) STRICT;

CREATE TABLE tidings_job (
  owner TEXT NOT NULL,
  job_id TEXT NOT NULL,
  job_type TEXT NOT NULL,
  status TEXT NOT NULL,
  birth INTEGER NOT NULL,
  position INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  -- The delay of a pending job, the lease of a running one, on the machine's monotonic clock in milliseconds.
  set_at REAL NOT NULL,
  until REAL NOT NULL,
  holder TEXT,
  ended_at INTEGER,
  -- Whether progress between the ends of stages was removed.
  compact INTEGER NOT NULL DEFAULT 0,
  input_bytes INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  correlation_id TEXT,
  idempotency_key TEXT,
  digest TEXT NOT NULL,
  retried_as TEXT,
  trimmed_through INTEGER NOT NULL DEFAULT 0,
  counts TEXT NOT NULL,
  job TEXT NOT NULL,
  PRIMARY KEY (owner, job_id)
) STRICT;

CREATE UNIQUE INDEX tidings_job_key ON tidings_job (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX tidings_job_birth ON tidings_job (owner, birth);
CREATE INDEX tidings_job_status ON tidings_job (owner, status, birth);
CREATE INDEX tidings_job_correlation ON tidings_job (owner, correlation_id, birth) WHERE correlation_id IS NOT NULL;
CREATE INDEX tidings_job_ready ON tidings_job (job_type, birth) WHERE status = 'pending' AND until = 0;
CREATE INDEX tidings_job_delayed ON tidings_job (job_type, until) WHERE status = 'pending' AND until > 0;
CREATE INDEX tidings_job_delayed_since ON tidings_job (job_type, set_at) WHERE status = 'pending' AND until > 0;
CREATE INDEX tidings_job_leased ON tidings_job (job_type, until, set_at, holder) WHERE status = 'running';
CREATE INDEX tidings_job_ended ON tidings_job (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tidings_job_wordy ON tidings_job (ended_at) WHERE ended_at IS NOT NULL AND compact = 0;

-- Inputs, checkpoints and results stand apart, because a job's row is written again with each of its events.
CREATE TABLE tidings_document (
  owner TEXT NOT NULL,
  job_id TEXT NOT NULL,
  name TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (owner, job_id, name)
) STRICT;

-- AUTOINCREMENT: a position is never given twice, not even after the newest entries were removed.
CREATE TABLE tidings_event (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  owner TEXT NOT NULL,
  job_id TEXT,
  seq INTEGER,
  resource_id TEXT,
  correlation_id TEXT,
  -- Only of events that concern no job: the ids of the others follow from job and seq.
  event_id TEXT,
  -- Of the same events, in milliseconds since 1970: they go by age, those of a job go with it.
  published_at INTEGER,
  type TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;

CREATE INDEX tidings_event_owner ON tidings_event (owner);
CREATE INDEX tidings_event_job ON tidings_event (owner, job_id) WHERE job_id IS NOT NULL;
CREATE INDEX tidings_event_correlation ON tidings_event (owner, correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX tidings_event_resource ON tidings_event (owner, resource_id) WHERE resource_id IS NOT NULL;
CREATE INDEX tidings_event_age ON tidings_event (published_at) WHERE published_at IS NOT NULL;
CREATE UNIQUE INDEX tidings_event_published ON tidings_event (owner, event_id) WHERE event_id IS NOT NULL;

-- Collections in chunks: `count` items from the offset `first` on, as one JSON array.
CREATE TABLE tidings_item (
  owner TEXT NOT NULL,
  job_id TEXT NOT NULL,
  collection TEXT NOT NULL,
  first INTEGER NOT NULL,
  count INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (owner, job_id, collection, first)
) STRICT;

CREATE TABLE tidings_value (
  owner TEXT NOT NULL,
  key TEXT NOT NULL,
  body TEXT NOT NULL,
  -- In milliseconds since 1970; NULL = it stays.
  expires_at INTEGER,
  PRIMARY KEY (owner, key)
) STRICT;

CREATE INDEX tidings_value_expiry ON tidings_value (expires_at) WHERE expires_at IS NOT NULL;
