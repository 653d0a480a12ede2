-- What was done to one record: operators ask for it with every look at the record.
CREATE INDEX oncegate_audit_identity ON oncegate_audit (idem_key, scope, tenant);
