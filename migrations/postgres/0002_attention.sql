-- Who may run a record, and when a background job has to see to it: callbacks of the decision API,
-- and probes of calls whose outcome is unknown.
-- decision 1: a caller of the decision API runs it, no gateway renews its lease.
ALTER TABLE oncegate_records ADD COLUMN decision smallint NOT NULL DEFAULT 0;
-- decision: when it is called back; UNKNOWN: when it is probed; NULL: never.
ALTER TABLE oncegate_records ADD COLUMN attend_at bigint;
CREATE INDEX oncegate_attention ON oncegate_records (decision, attend_at)
    WHERE attend_at IS NOT NULL;
DROP INDEX oncegate_due;
CREATE INDEX oncegate_due ON oncegate_records (state, decision, due_at) WHERE state <> 'SUCCEEDED';
