//! Whatever crashes: can it run twice, can it be lost, is it stuck, is it told?

mod durable_away;
mod fast_away;
mod processes;
