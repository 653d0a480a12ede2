//! The fingerprint of a request: SHA-256 of what makes two requests "the same request".
//!
//! It decides between a replay and `key-reused`, so two different requests must never be hashed
//! from the same bytes: every part goes in with its label and its length, and a part that is
//! absent differs from an empty one.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::canonical_json::{self, CanonicalError, Selection};

/// Changes with the encoding below: a stored fingerprint must never match by accident of layout.
const REQUEST: &[u8] = b"oncegate request 1";
const TEXT: &[u8] = b"oncegate text 1";
const VALUE: &[u8] = b"oncegate value 1";

/// Two requests of one identity are the same request when these are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// Writes bytes as lower-case hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BodyRule {
    /// Byte for byte.
    #[default]
    Raw,
    /// The canonical JSON of the selected parts. A body that is not acceptable JSON is an error;
    /// no body at all is not, and differs from every JSON value.
    Json(Selection),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueryRule {
    #[default]
    Counts,
    Ignored,
}

/// What counts besides method and path. By default: the body byte for byte, and the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FingerprintRules {
    body: BodyRule,
    query: QueryRule,
    headers: Box<[Box<str>]>,
}

/// What a request is made of, but for its headers, which are looked up one by one.
#[derive(Clone, Copy)]
pub struct RequestParts<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Without the question mark. `/a` has none, `/a?` has an empty one.
    pub query: Option<&'a str>,
    pub body: &'a [u8],
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintError {
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    #[error("the value cannot be written as JSON: {0}")]
    NotSerializable(serde_json::Error),
}

/// A hasher that takes labelled, length-prefixed parts, and the body without copying it.
struct Parts(Sha256);

impl Fingerprint {
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// For callers that name their payload themselves, such as the decision API's.
    pub fn of_text(text: &str) -> Self {
        Parts::new(TEXT).with(b"text", text.as_bytes()).end()
    }

    /// Of the canonical JSON of a value: the order of struct fields and map entries does not count.
    /// Integers beyond 2^53 are refused; serde_json writes a NaN or an infinity as `null`.
    pub fn of_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, FingerprintError> {
        let json = serde_json::to_vec(value).map_err(FingerprintError::NotSerializable)?;
        let canonical = canonical_json::canonicalize(&json, &Selection::default())?;
        Ok(Parts::new(VALUE).with(b"value", &canonical).end())
    }
}

impl FingerprintRules {
    /// Header names are compared without case; their order here, and repeats, do not count.
    pub fn new<S: AsRef<str>>(
        body: BodyRule,
        query: QueryRule,
        headers: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut headers: Vec<Box<str>> =
            headers.into_iter().map(|name| name.as_ref().to_ascii_lowercase().into()).collect();
        headers.sort();
        headers.dedup();
        Self { body, query, headers: headers.into() }
    }

    /// `header_values` is asked with a lower-case name and gives that header's values in order.
    pub fn fingerprint<'a, I>(
        &self,
        request: &RequestParts<'a>,
        header_values: impl Fn(&str) -> I,
    ) -> Result<Fingerprint, FingerprintError>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let mut parts = Parts::new(REQUEST)
            .with(b"method", request.method.as_bytes())
            .with(b"path", request.path.as_bytes());
        if let (QueryRule::Counts, Some(query)) = (self.query, request.query) {
            parts = parts.with(b"query", query.as_bytes());
        }
        for name in &self.headers {
            // The name goes in even when there is no value: it closes the list before it.
            parts = parts.with(b"header", name.as_bytes());
            for value in header_values(name) {
                parts = parts.with(b"value", value);
            }
        }
        Ok(match &self.body {
            BodyRule::Raw => parts.with(b"body", request.body),
            BodyRule::Json(_) if request.body.is_empty() => parts.with(b"no json", b""),
            BodyRule::Json(selection) => {
                parts.with(b"json", &canonical_json::canonicalize(request.body, selection)?)
            }
        }
        .end())
    }
}

impl Parts {
    fn new(domain: &[u8]) -> Self {
        Self(Sha256::new()).with(b"oncegate", domain)
    }

    fn with(mut self, label: &[u8], bytes: &[u8]) -> Self {
        self.0.update((label.len() as u64).to_le_bytes());
        self.0.update(label);
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    fn end(self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }
}

/// All 64 digits, as the probe and the `digest` key see it.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({}…)", Hex(&self.0[..4]))
    }
}

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in self.0 {
            f.write_char(DIGITS[usize::from(byte >> 4)] as char)?;
            f.write_char(DIGITS[usize::from(byte & 15)] as char)?;
        }
        Ok(())
    }
}

impl fmt::Debug for RequestParts<'_> {
    /// Path, query and body may hold what no log should.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestParts")
            .field("method", &self.method)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
