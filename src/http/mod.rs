//! What every listener shares: bodies, problem documents, header rules, and the server itself.

pub mod body;
pub mod body_fault;
pub mod client;
pub mod given_answer;
pub mod headers;
pub mod idle_limited;
pub mod incoming;
pub mod json;
pub mod problem;
pub mod server;
pub mod unbroken;

pub use body::{Body, BoxError};
pub use body_fault::BodyFault;
pub use given_answer::GivenAnswer;
pub use idle_limited::{BodyIdle, IdleLimited};
pub use problem::Problem;
pub use unbroken::Unbroken;
