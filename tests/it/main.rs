//! Everything that runs on real servers, in one binary so that tests share them.

#[path = "../support/mod.rs"]
mod support;

mod bed;
mod engine;
mod faults;
mod model;
mod sql;
