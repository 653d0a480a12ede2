//! Everything that runs on real servers, in one binary so that tests share them.

#[path = "../support/mod.rs"]
mod support;

mod bed;
mod durable;
mod engine;
mod fast;
mod faults;
mod gateway;
mod model;
mod observability;
mod sql;
