//! The two tiers, each behind one trait, and the one file that knows both.
//!
//! `durable` admits: a unique constraint and fenced writes. `fast` only ever rejects or replays.

pub mod codec;
pub mod durable;
pub mod error;
pub mod fast;
mod observed;
mod step;
pub mod tiered;

pub use durable::{DurableOptions, DurableTier};
pub use error::StoreError;
pub use fast::FastTier;
pub use tiered::Tiered;
