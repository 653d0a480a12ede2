//! Why a tier could not do what it was asked, and whether asking again can help.

use std::fmt::Display;

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    /// Down, slow or cut off: asking again can help. A write may or may not have been applied; every
    /// write of this crate can be repeated safely.
    #[error("the {tier} did not answer: {reason}")]
    Unavailable { tier: &'static str, reason: String },
    /// The tier is there and has too much to do, or is about to close: asking again can help.
    #[error("the {tier} is busy: {reason}")]
    Busy { tier: &'static str, reason: String },
    /// The tier understood and refused this value: asking again cannot help.
    #[error("the {tier} refused the value: {reason}")]
    Rejected { tier: &'static str, reason: String },
    /// The URL, the schema or a stored row is not what it should be.
    #[error("{0}")]
    Misconfigured(String),
}

impl StoreError {
    pub fn unavailable(tier: &'static str, reason: impl Display) -> Self {
        Self::Unavailable { tier, reason: reason.to_string() }
    }

    pub fn busy(tier: &'static str, reason: impl Display) -> Self {
        Self::Busy { tier, reason: reason.to_string() }
    }

    /// Asking again can help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Busy { .. })
    }

    /// The tier itself does not answer, to nobody.
    pub fn is_down(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
