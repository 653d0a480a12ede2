//! What every listener shares: bodies, problem documents, header rules, and the server itself.

pub mod body;
pub mod headers;
pub mod problem;

pub use body::{Body, BoxError};
pub use problem::Problem;
