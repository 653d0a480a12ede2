//! From the first line on stderr to the exit code.

mod reloading;
mod sources;
mod starting;
mod stopping;
