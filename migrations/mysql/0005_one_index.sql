-- One index for what is open and what expires, where two had been: a claim writes one entry less, and
-- an ending moves one instead of two. What is PROCESSING or UNKNOWN is few and found by its state alone,
-- so a renewed lease moves none at all.
ALTER TABLE oncegate_records
    DROP KEY oncegate_due,
    DROP KEY oncegate_expiry,
    ADD KEY oncegate_state (state, expires_at);
