//! The stored answer: status, headers, body bytes.
//!
//! Headers are kept as an HTTP/1.1 header block: it is exact (order, repetition, any byte a header
//! may carry), compact, and an operator can read it in the database.

use bytes::{Bytes, BytesMut};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub status: u16,
    pub headers: HeaderBlock,
    pub body: Body,
}

impl Snapshot {
    /// The answer of something that is not HTTP: a value and no headers.
    pub fn of_value(json: Vec<u8>) -> Self {
        Self { status: 200, headers: HeaderBlock::default(), body: Body::Stored(json.into()) }
    }

    pub fn len(&self) -> usize {
        self.headers.as_bytes().len()
            + match &self.body {
                Body::Stored(bytes) => bytes.len(),
                Body::TooLong => 0,
            }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same answer, remembered as done without its body.
    pub fn without_body(self) -> Self {
        Self { body: Body::TooLong, ..self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Stored(Bytes),
    /// It was longer than the limit and went through without being kept.
    TooLong,
}

/// `name: value\r\n` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderBlock(Bytes);

impl HeaderBlock {
    /// Names and values as HTTP allows them: no line breaks, no colon in a name.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut block = BytesMut::new();
        for (name, value) in pairs {
            debug_assert!(
                !name.contains(&b':') && !value.iter().any(|b| matches!(b, b'\r' | b'\n'))
            );
            block.extend_from_slice(name);
            block.extend_from_slice(b": ");
            block.extend_from_slice(value);
            block.extend_from_slice(b"\r\n");
        }
        Self(block.freeze())
    }

    /// A block read back from a tier.
    pub fn from_stored(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.split(|&byte| byte == b'\n').filter_map(|line| {
            let line = line.strip_suffix(b"\r")?;
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..colon], line[colon + 1..].strip_prefix(b" ")?))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_come_back_as_they_were_in_order_and_repeated(
            pairs in prop::collection::vec(("[a-z0-9-]{1,12}", prop::collection::vec(
                prop_oneof![Just(b'\t'), 0x20u8..0x7f, 0x80u8..=0xff], 0..20)), 0..8)
        ) {
            let block = HeaderBlock::from_pairs(
                pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())));
            let read: Vec<_> = HeaderBlock::from_stored(block.as_bytes().clone())
                .pairs().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            let written: Vec<_> =
                pairs.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
            prop_assert_eq!(read, written);
        }
    }
}
