//! What operators look at: rules, alerts and dashboards ask for metrics that exist, and a real
//! Prometheus before a real gateway has an answer to each of their queries.

mod access_log;
mod files;
mod names;
mod prometheus;
mod queries;
#[cfg(feature = "otel")]
mod traces;
