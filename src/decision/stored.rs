//! How the end of a decision is stored as an answer, and read back from one.
//!
//! The attempt and the reference stand in the header block, so that a copy of the answer out of any
//! tier tells as much as the record.

use bytes::Bytes;
use serde_json::Value;

use crate::idempotency::{Body, HeaderBlock, Snapshot};

const ATTEMPT: &[u8] = b"idempotency-attempt";
const REFERENCE: &[u8] = b"result-ref";
const DONE: u16 = 200;
/// The status of an answer that stands for CONFLICT.
pub const CONFLICT: u16 = 409;

pub fn done(result: Option<&Value>, result_ref: Option<&str>, attempt: u32) -> Snapshot {
    let body = result.map_or_else(String::new, Value::to_string);
    snapshot(DONE, body.into(), result_ref, attempt)
}

pub fn conflict(attempt: u32) -> Snapshot {
    snapshot(CONFLICT, Bytes::new(), None, attempt)
}

fn snapshot(status: u16, body: Bytes, result_ref: Option<&str>, attempt: u32) -> Snapshot {
    let attempt = attempt.to_string();
    let mut pairs = vec![(ATTEMPT, attempt.as_bytes())];
    pairs.extend(result_ref.map(|text| (REFERENCE, text.as_bytes())));
    Snapshot { status, headers: HeaderBlock::from_pairs(pairs), body: Body::Stored(body) }
}

/// None: it was ended without a result. What a gateway stored is given as JSON where it is JSON,
/// else as text.
pub fn result(answer: &Snapshot) -> Option<Value> {
    let Body::Stored(body) = &answer.body else { return None };
    if body.is_empty() {
        return None;
    }
    let json = serde_json::from_slice(body).ok();
    json.or_else(|| str::from_utf8(body).ok().map(Value::from))
}

pub fn attempt(answer: &Snapshot) -> Option<u32> {
    header(answer, ATTEMPT)?.parse().ok()
}

pub fn result_ref(answer: &Snapshot) -> Option<&str> {
    header(answer, REFERENCE)
}

fn header<'a>(answer: &'a Snapshot, name: &[u8]) -> Option<&'a str> {
    let value = answer.headers.pairs().find(|(other, _)| *other == name)?.1;
    str::from_utf8(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_comes_back_as_it_was_given() {
        for value in [json!(null), json!({ "id": 7, "ü": [1.5, ""] }), json!("text")] {
            let answer = done(Some(&value), Some("orders/7 ü"), 3);
            assert_eq!(result(&answer), Some(value));
            assert_eq!(attempt(&answer), Some(3));
            assert_eq!(result_ref(&answer), Some("orders/7 ü"));
        }
        assert_eq!(result(&done(None, None, 1)), None);
        assert_eq!(result_ref(&done(None, None, 1)), None);
    }
}
