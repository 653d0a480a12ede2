//! What oncegate tells about itself.

pub mod metrics;
