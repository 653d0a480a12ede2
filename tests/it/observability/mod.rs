//! What operators look at: rules, alerts and dashboards ask for metrics that exist, and a real
//! Prometheus before a real gateway has an answer to each of their queries.

mod files;
mod names;
mod prometheus;
mod queries;

/// Fixed by the contract and used in `grafana/`, but not counted by this tree yet. Names only:
/// a query that needs one of them need not answer. To be emptied when the jobs have landed.
const AWAITED: &[&str] = &[
    "oncegate_oldest_processing_age_seconds",
    "oncegate_processing_records",
    "oncegate_purged_records_total",
    "oncegate_settled_total",
    "oncegate_stuck_records",
    "oncegate_tier_duration_seconds",
    "oncegate_tier_up",
    "oncegate_unknown_records",
];
