-- One row per identity (tenant, scope, key). The unique constraint is what admits an execution.
-- COLLATE "C" compares byte for byte. Times are milliseconds since 1970-01-01 UTC by the
-- database's own clock. To read one: to_timestamp(created_at / 1000.0)
CREATE TABLE oncegate_records (
    id               uuid    PRIMARY KEY,  -- time-ordered (UUID v7)
    tenant           text    COLLATE "C" NOT NULL,
    scope            text    COLLATE "C" NOT NULL,
    idem_key         text    COLLATE "C" NOT NULL,
    fingerprint      bytea,                -- SHA-256 of the request
    credential       bytea,                -- SHA-256 of the credential of the first request
    state            text    COLLATE "C" NOT NULL
                     CHECK (state IN ('PROCESSING', 'SUCCEEDED', 'FAILED', 'UNKNOWN')),
    attempt          integer NOT NULL,
    token            uuid    NOT NULL,     -- who owns this attempt; fences every later write
    due_at           bigint,               -- PROCESSING: lease end; FAILED, UNKNOWN: next retry; NULL: never
    expires_at       bigint,               -- SUCCEEDED and FAILED only
    response_status  integer,
    response_headers bytea,                -- an HTTP/1.1 header block
    response_body    bytea,                -- NULL beside a status: done, too long to store
    result_ref       text,
    last_error       text,
    last_error_at    bigint,
    created_at       bigint  NOT NULL,
    updated_at       bigint  NOT NULL,     -- PROCESSING: when this attempt began
    CONSTRAINT oncegate_identity UNIQUE (idem_key, scope, tenant)
);
-- Only the few records that still need somebody: finished ones stay out of this index.
CREATE INDEX oncegate_due ON oncegate_records (state, due_at) WHERE state <> 'SUCCEEDED';
CREATE INDEX oncegate_expiry ON oncegate_records (expires_at) WHERE expires_at IS NOT NULL;

-- What operators did. Every instance also follows it to learn which answers were forgotten.
CREATE TABLE oncegate_audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       bigint NOT NULL,
    actor    text   NOT NULL,
    action   text   NOT NULL,
    tenant   text   NOT NULL,
    scope    text   NOT NULL,
    idem_key text   NOT NULL,
    note     text   NOT NULL
);
