-- Who may run a record, and when a background job has to see to it: callbacks of the decision API,
-- and probes of calls whose outcome is unknown.
ALTER TABLE oncegate_records
    ADD COLUMN decision  SMALLINT NOT NULL DEFAULT 0
        COMMENT '1: a caller of the decision API runs it, no gateway renews its lease',
    ADD COLUMN attend_at BIGINT       NULL
        COMMENT 'decision: when it is called back; UNKNOWN: when it is probed; NULL: never',
    ADD KEY oncegate_attention (decision, attend_at),
    DROP KEY oncegate_due,
    ADD KEY oncegate_due (state, decision, due_at);
