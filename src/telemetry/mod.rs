//! What oncegate tells about itself.

pub mod logs;
pub mod metrics;
pub mod prometheus;
pub mod totals;
