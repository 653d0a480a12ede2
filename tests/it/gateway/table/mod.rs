//! What a client sees: every row of the contract's table.

mod answers;
mod failures;
mod keys;
mod limits;
mod mismatches;
mod running;
mod store_away;
mod untouched;
mod upstream_away;
