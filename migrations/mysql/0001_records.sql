-- One row per identity (tenant, scope, key). The unique key is what admits an execution.
-- Text is VARBINARY so that it is compared byte for byte: 'ABC' is not 'abc', 'a' is not 'a '.
--   To read it: SELECT CONVERT(idem_key USING utf8mb4) FROM oncegate_records …
-- Times are milliseconds since 1970-01-01 UTC by the database's own clock.
--   To read one: FROM_UNIXTIME(created_at / 1000)
CREATE TABLE IF NOT EXISTS oncegate_records (
    id               BINARY(16)      NOT NULL COMMENT 'time-ordered (UUID v7)',
    tenant           VARBINARY(1020) NOT NULL,
    scope            VARBINARY(512)  NOT NULL,
    idem_key         VARBINARY(1020) NOT NULL,
    fingerprint      BINARY(32)          NULL COMMENT 'SHA-256 of the request',
    credential       BINARY(32)          NULL COMMENT 'SHA-256 of the credential of the first request',
    state            VARCHAR(10)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL
                     COMMENT 'PROCESSING SUCCEEDED FAILED UNKNOWN',
    attempt          INT             NOT NULL,
    token            BINARY(16)      NOT NULL COMMENT 'who owns this attempt; fences every later write',
    due_at           BIGINT              NULL COMMENT 'PROCESSING: lease end; FAILED, UNKNOWN: next retry; NULL: never',
    expires_at       BIGINT              NULL COMMENT 'SUCCEEDED and FAILED only',
    response_status  INT                 NULL,
    response_headers MEDIUMBLOB          NULL COMMENT 'an HTTP/1.1 header block',
    response_body    LONGBLOB            NULL COMMENT 'NULL beside a status: done, too long to store',
    result_ref       VARBINARY(1020)     NULL,
    last_error       BLOB                NULL,
    last_error_at    BIGINT              NULL,
    created_at       BIGINT          NOT NULL,
    updated_at       BIGINT          NOT NULL COMMENT 'PROCESSING: when this attempt began',
    PRIMARY KEY (id),
    UNIQUE KEY oncegate_identity (idem_key, scope, tenant),
    KEY oncegate_due (state, due_at),
    KEY oncegate_expiry (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What operators did. Every instance also follows it to learn which answers were forgotten.
CREATE TABLE IF NOT EXISTS oncegate_audit (
    id       BIGINT          NOT NULL AUTO_INCREMENT,
    at       BIGINT          NOT NULL,
    actor    VARBINARY(255)  NOT NULL,
    action   VARBINARY(32)   NOT NULL,
    tenant   VARBINARY(1020) NOT NULL,
    scope    VARBINARY(512)  NOT NULL,
    idem_key VARBINARY(1020) NOT NULL,
    note     BLOB            NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
