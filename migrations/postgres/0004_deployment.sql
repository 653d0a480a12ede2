-- The name of this deployment, made here once: in a Redis that several deployments share, each finds
-- its own keys only.
CREATE TABLE oncegate_deployment (
    one  SMALLINT PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    name TEXT     NOT NULL
);

INSERT INTO oncegate_deployment (name) VALUES (replace(gen_random_uuid()::text, '-', ''));
