//! The idempotency key: what a client may send, and how it becomes the key of an identity.
//!
//! Clients send keys bare or as structured-field strings, and libraries differ in which. Both
//! spellings are one key here, because the retry may come through another library. Apart from
//! that a key is kept byte for byte. Keys are secrets: no message and no `Debug` shows one.

use std::fmt;
use std::sync::Arc;

use regex_lite::Regex;
use sha2::{Digest, Sha256};

use super::fingerprint::{Fingerprint, Hex};

/// The durable tier's column holds this many characters; a longer key would be cut, and two keys
/// that differ behind the cut would become one.
pub const KEY_MAX_LENGTH: usize = 255;

/// An idempotency key: 1 to 255 characters, no control characters; case and blanks matter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// Which characters a key may have, besides the limits that hold for every key.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum KeyPattern {
    /// `!` to `~`.
    #[default]
    VisibleAscii,
    /// The whole key must match; made by [`KeyPattern::matching`], which anchors it.
    Matching(Regex),
    /// Any text without control characters.
    AnyText,
}

/// What a route accepts as a key.
#[derive(Debug, Clone)]
pub struct KeyRules {
    max_length: usize,
    pattern: KeyPattern,
}

/// Why something sent is no key. Positions are characters of the key, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    #[error("the idempotency key is empty; send 1 to {KEY_MAX_LENGTH} characters")]
    Empty,
    #[error("the idempotency key has {got} characters; send at most {max}")]
    TooLong { max: usize, got: usize },
    #[error(
        "character {position} of the idempotency key is not allowed; send visible ASCII characters, \
         for example a UUID"
    )]
    NotVisibleAscii { position: usize },
    #[error("character {position} of the idempotency key is a control character; leave it out")]
    ControlCharacter { position: usize },
    #[error(
        "the idempotency key is not UTF-8 from character {position} on; send a UUID, for example"
    )]
    NotUtf8 { position: usize },
    #[error(
        "the quotes of the idempotency key do not match; send it bare or as one structured-field \
         string, with \\\" and \\\\ for quotes and backslashes inside"
    )]
    Malformed,
    #[error("the idempotency key does not match this route's key_pattern")]
    PatternMismatch,
    /// Where a key is read from JSON.
    #[error("the idempotency key is neither a string nor a whole number up to 2^53; send a string")]
    NotText,
}

/// Why a configuration describes no rules for keys.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRulesError {
    #[error("key_max_length is {got}; it must be 1 to {KEY_MAX_LENGTH}")]
    MaxLength { got: usize },
    #[error("key_pattern is not a regular expression: {0}")]
    Pattern(regex_lite::Error),
}

impl KeyPattern {
    pub fn matching(pattern: &str) -> Result<Self, KeyRulesError> {
        // On its own first: `a)|(b` is a mistake that the anchors would turn into an expression.
        Regex::new(pattern)
            .and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")))
            .map(Self::Matching)
            .map_err(KeyRulesError::Pattern)
    }

    fn check(&self, text: &str) -> Result<(), KeyError> {
        match self {
            Self::VisibleAscii => match text.chars().position(|c| !c.is_ascii_graphic()) {
                Some(index) => Err(KeyError::NotVisibleAscii { position: index + 1 }),
                None => Ok(()),
            },
            Self::Matching(regex) if !regex.is_match(text) => Err(KeyError::PatternMismatch),
            Self::Matching(_) | Self::AnyText => Ok(()),
        }
    }
}

impl KeyRules {
    /// `max_length` counts characters.
    pub fn new(max_length: usize, pattern: KeyPattern) -> Result<Self, KeyRulesError> {
        match max_length {
            1..=KEY_MAX_LENGTH => Ok(Self { max_length, pattern }),
            got => Err(KeyRulesError::MaxLength { got }),
        }
    }

    /// For keys that no header carried, such as the decision API's.
    pub const fn any_text() -> Self {
        Self { max_length: KEY_MAX_LENGTH, pattern: KeyPattern::AnyText }
    }
}

impl Default for KeyRules {
    fn default() -> Self {
        Self { max_length: KEY_MAX_LENGTH, pattern: KeyPattern::default() }
    }
}

impl Key {
    /// Takes the text as it is, without looking for quotes.
    pub fn new(text: &str, rules: &KeyRules) -> Result<Self, KeyError> {
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        let got = text.chars().count();
        if got > rules.max_length {
            return Err(KeyError::TooLong { max: rules.max_length, got });
        }
        if let Some(index) = text.chars().position(char::is_control) {
            return Err(KeyError::ControlCharacter { position: index + 1 });
        }
        rules.pattern.check(text)?;
        Ok(Self(text.into()))
    }

    /// From a header's value: bare, or, where it begins with a quote, a structured-field string
    /// whose parameters are ignored (RFC 9651, 3.1.2). The rules are about what is between the
    /// quotes; inside a bare key a quote is a character like others.
    pub fn from_header(raw: &[u8], rules: &KeyRules) -> Result<Self, KeyError> {
        let text = str::from_utf8(raw).map_err(|error| {
            let valid = String::from_utf8_lossy(&raw[..error.valid_up_to()]);
            KeyError::NotUtf8 { position: valid.chars().count() + 1 }
        })?;
        let text = text.trim_matches([' ', '\t']);
        if text.starts_with('"') {
            let (key, parameters) = split_string(text)?;
            check_parameters(parameters)?;
            Self::new(&key, rules)
        } else {
            Self::new(text, rules)
        }
    }

    /// From what [`Key::as_str`] gave when the record was stored: it was checked then, perhaps by
    /// rules that a newer configuration no longer has.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// For callers that cannot send a key (`key_from = "digest"`).
    pub fn from_fingerprint(fingerprint: &Fingerprint) -> Self {
        Self(fingerprint.to_string().into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = Sha256::digest(self.0.as_bytes());
        write!(f, "Key({} characters, sha256 {}…)", self.0.chars().count(), Hex(&digest[..4]))
    }
}

/// Splits what starts with a quote into the text between the quotes and what follows them.
fn split_string(quoted: &str) -> Result<(String, &str), KeyError> {
    let mut plain = String::with_capacity(quoted.len());
    let mut characters = quoted.char_indices().skip(1);
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Ok((plain, &quoted[index + 1..])),
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => plain.push(escaped),
                _ => return Err(KeyError::Malformed),
            },
            ' '..='~' => plain.push(character),
            _ => return Err(KeyError::Malformed),
        }
    }
    Err(KeyError::Malformed)
}

/// Ignored is not unread: what two key headers joined by a proxy look like (`"a";v=1, "b"`) must
/// not pass for the first of them.
fn check_parameters(mut rest: &str) -> Result<(), KeyError> {
    while !rest.is_empty() {
        rest = rest.strip_prefix(';').ok_or(KeyError::Malformed)?.trim_start_matches(' ');
        if !rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '*') {
            return Err(KeyError::Malformed);
        }
        rest = rest.trim_start_matches(|c: char| {
            c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.*".contains(c)
        });
        let Some(value) = rest.strip_prefix('=') else {
            continue;
        };
        rest = if value.starts_with('"') {
            split_string(value)?.1
        } else {
            // Numbers, tokens, byte sequences, booleans and dates: all that can end neither early
            // nor in another member of a list.
            let after = value.trim_start_matches(|c: char| {
                c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/=?@".contains(c)
            });
            if after.len() == value.len() {
                return Err(KeyError::Malformed);
            }
            after
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests;
