pub mod clock;
pub mod engine;
pub mod idempotency;
pub mod store;
pub mod telemetry;
