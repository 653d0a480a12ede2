-- One row per identity (tenant, scope, key). The unique constraint is what admits an execution.
-- BINARY collation (the default) compares byte for byte. Times are milliseconds since
-- 1970-01-01 UTC. To read one: datetime(created_at / 1000, 'unixepoch')
CREATE TABLE oncegate_records (
    id               BLOB    NOT NULL UNIQUE,  -- time-ordered (UUID v7)
    tenant           TEXT    NOT NULL,
    scope            TEXT    NOT NULL,
    idem_key         TEXT    NOT NULL,
    fingerprint      BLOB,                     -- SHA-256 of the request
    credential       BLOB,                     -- SHA-256 of the credential of the first request
    state            TEXT    NOT NULL
                     CHECK (state IN ('PROCESSING', 'SUCCEEDED', 'FAILED', 'UNKNOWN')),
    attempt          INTEGER NOT NULL,
    token            BLOB    NOT NULL,         -- who owns this attempt; fences every later write
    due_at           INTEGER,                  -- PROCESSING: lease end; FAILED, UNKNOWN: next retry; NULL: never
    expires_at       INTEGER,                  -- SUCCEEDED and FAILED only
    response_status  INTEGER,
    response_headers BLOB,                     -- an HTTP/1.1 header block
    response_body    BLOB,                     -- NULL beside a status: done, too long to store
    result_ref       TEXT,
    last_error       TEXT,
    last_error_at    INTEGER,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,         -- PROCESSING: when this attempt began
    UNIQUE (idem_key, scope, tenant)
);
-- Only the few records that still need somebody: finished ones stay out of this index.
CREATE INDEX oncegate_due ON oncegate_records (state, due_at) WHERE state <> 'SUCCEEDED';
CREATE INDEX oncegate_expiry ON oncegate_records (expires_at) WHERE expires_at IS NOT NULL;

-- What operators did. Every instance also follows it to learn which answers were forgotten.
CREATE TABLE oncegate_audit (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    actor    TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    tenant   TEXT    NOT NULL,
    scope    TEXT    NOT NULL,
    idem_key TEXT    NOT NULL,
    note     TEXT    NOT NULL
);
