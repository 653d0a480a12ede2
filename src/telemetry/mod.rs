//! What oncegate tells about itself.

pub mod lines;
pub mod logs;
pub mod metrics;
pub mod prometheus;
pub mod totals;
pub mod trace_context;
pub mod traces;
