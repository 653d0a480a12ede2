-- The name of this deployment, made here once: in a Redis that several deployments share, each finds
-- its own keys only.
CREATE TABLE IF NOT EXISTS oncegate_deployment (
    one  SMALLINT    NOT NULL DEFAULT 1,
    name VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (one)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT IGNORE INTO oncegate_deployment (one, name) VALUES (1, REPLACE(UUID(), '-', ''));
