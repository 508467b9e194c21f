-- What each owner keeps, in bytes: texts, and for each row about what it takes beside them (weight.ts has the numbers).
-- Triggers count in the transaction that writes or removes, whoever does it: one statement for each row.
CREATE TABLE tidings_usage (
  owner TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The oldest of one owner.
CREATE INDEX tidings_job_ended_of_owner ON tidings_job (owner, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tidings_event_age_of_owner ON tidings_event (owner, published_at) WHERE published_at IS NOT NULL;

CREATE TRIGGER tidings_job_kept AFTER INSERT ON tidings_job BEGIN
  INSERT INTO tidings_usage VALUES (new.owner, 1024) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER tidings_job_gone AFTER DELETE ON tidings_job BEGIN
  UPDATE tidings_usage SET bytes = bytes - 1024 WHERE owner = old.owner;
END;

CREATE TRIGGER tidings_event_kept AFTER INSERT ON tidings_event BEGIN
  INSERT INTO tidings_usage VALUES (new.owner, 192 + octet_length(new.body))
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER tidings_event_gone AFTER DELETE ON tidings_event BEGIN
  UPDATE tidings_usage SET bytes = bytes - 192 - octet_length(old.body) WHERE owner = old.owner;
END;

CREATE TRIGGER tidings_document_kept AFTER INSERT ON tidings_document BEGIN
  INSERT INTO tidings_usage VALUES (new.owner, octet_length(new.body))
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER tidings_document_changed AFTER UPDATE OF body ON tidings_document BEGIN
  UPDATE tidings_usage SET bytes = bytes + octet_length(new.body) - octet_length(old.body) WHERE owner = new.owner;
END;
CREATE TRIGGER tidings_document_gone AFTER DELETE ON tidings_document BEGIN
  UPDATE tidings_usage SET bytes = bytes - octet_length(old.body) WHERE owner = old.owner;
END;

-- A chunk's brackets and commas are one byte more than its items.
CREATE TRIGGER tidings_item_kept AFTER INSERT ON tidings_item BEGIN
  INSERT INTO tidings_usage VALUES (new.owner, octet_length(new.body) - 1)
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER tidings_item_gone AFTER DELETE ON tidings_item BEGIN
  UPDATE tidings_usage SET bytes = bytes - octet_length(old.body) + 1 WHERE owner = old.owner;
END;

CREATE TRIGGER tidings_value_kept AFTER INSERT ON tidings_value BEGIN
  INSERT INTO tidings_usage VALUES (new.owner, 192 + octet_length(new.body))
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER tidings_value_changed AFTER UPDATE OF body ON tidings_value BEGIN
  UPDATE tidings_usage SET bytes = bytes + octet_length(new.body) - octet_length(old.body) WHERE owner = new.owner;
END;
CREATE TRIGGER tidings_value_gone AFTER DELETE ON tidings_value BEGIN
  UPDATE tidings_usage SET bytes = bytes - 192 - octet_length(old.body) WHERE owner = old.owner;
END;

INSERT INTO tidings_usage
  SELECT owner, sum(bytes) FROM (
    SELECT owner, 1024 AS bytes FROM tidings_job
    UNION ALL SELECT owner, 192 + octet_length(body) FROM tidings_event
    UNION ALL SELECT owner, octet_length(body) FROM tidings_document
    UNION ALL SELECT owner, octet_length(body) - 1 FROM tidings_item
    UNION ALL SELECT owner, 192 + octet_length(body) FROM tidings_value
  ) GROUP BY owner;
