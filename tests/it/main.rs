//! Everything that runs on real servers, in one binary so that tests share them.

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod bed;
mod console;
mod decision;
mod durable;
mod engine;
mod fast;
mod faults;
mod gateway;
mod jobs;
mod model;
mod observability;
mod recipes;
mod sql;
