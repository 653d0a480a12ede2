//! The pure core: what a request is, what a record says, and what follows from both.
//!
//! No I/O, no clock, no await in here. Everything that could make an operation run twice is decided
//! in [`mod@decide`] and [`mod@settle`], where it can be read in one sitting and tested exhaustively.

#[cfg(test)]
mod arbitrary;
pub mod canonical_json;
pub mod decide;
pub mod fingerprint;
pub mod identity;
pub mod key;
pub mod policy;
pub mod record;
pub mod settle;
pub mod snapshot;
pub mod tenant;

pub use decide::{Admission, Decision, Refusal, decide};
pub use fingerprint::Fingerprint;
pub use identity::{Identity, IdentityDigest, Scope};
pub use key::Key;
pub use policy::{Policy, ReplayTo, WhenFailed, WhenUnknown};
pub use record::{Fence, Found, Origin, Record, RecordId, State, Token};
pub use settle::{Ending, Settlement, settle};
pub use snapshot::{Body, HeaderBlock, Snapshot};
pub use tenant::{Credential, Tenant};
