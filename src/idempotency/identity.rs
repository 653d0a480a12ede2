//! Identity: whose key, for which operation, which key.
//!
//! Compared byte for byte. The digest stands for it where the three texts are too long or too
//! secret to show: in the fast tier's key names, on channels and in logs.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Key, Tenant};

const SCOPE_MAX_CHARACTERS: usize = 128;

/// Which business operation a key belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Arc<str>);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScopeError {
    #[error("a scope needs at least one character")]
    Empty,
    #[error("a scope has at most {SCOPE_MAX_CHARACTERS} characters")]
    TooLong,
    #[error("a scope has no control characters")]
    ControlCharacter,
}

impl Scope {
    pub fn new(text: &str) -> Result<Self, ScopeError> {
        if text.is_empty() {
            return Err(ScopeError::Empty);
        }
        if text.chars().count() > SCOPE_MAX_CHARACTERS {
            return Err(ScopeError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(ScopeError::ControlCharacter);
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self("default".into())
    }
}

/// SHA-256 over the three length-prefixed texts.
pub type IdentityDigest = [u8; 32];

/// (tenant, scope, key): what may run at most once. Cheap to clone.
#[derive(Clone)]
pub struct Identity(Arc<Parts>);

struct Parts {
    tenant: Tenant,
    scope: Scope,
    key: Key,
    digest: IdentityDigest,
}

impl Identity {
    pub fn new(tenant: Tenant, scope: Scope, key: Key) -> Self {
        let mut hasher = Sha256::new();
        for text in [tenant.as_str(), scope.as_str(), key.as_str()] {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
        let digest = hasher.finalize().into();
        Self(Arc::new(Parts { tenant, scope, key, digest }))
    }

    pub fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    pub fn key(&self) -> &Key {
        &self.0.key
    }

    pub fn digest(&self) -> &IdentityDigest {
        &self.0.digest
    }

    /// The texts check themselves; this stands between a text that slipped through and a database
    /// that would shorten it silently, making two keys one.
    pub fn fits_the_columns(&self) -> bool {
        let (key, scope, tenant) = self.index_order();
        key.len() <= 1020 && scope.len() <= 512 && tenant.len() <= 1020
    }

    /// The order of the unique index: batches sorted by it lock rows in one order.
    pub fn index_order(&self) -> (&str, &str, &str) {
        (self.0.key.as_str(), self.0.scope.as_str(), self.0.tenant.as_str())
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.index_order() == other.index_order()
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}

/// Shows the scope and a short digest, never the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = &self.0.digest;
        write!(f, "{}#{:02x}{:02x}{:02x}{:02x}", self.0.scope.as_str(), d[0], d[1], d[2], d[3])
    }
}
