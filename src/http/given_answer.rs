//! An answer that somebody writes down instead of sending it: an operator who settles a record, or
//! an upstream that is asked what became of a call. Both are read alike.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRAILER};
use serde::Deserialize;
use serde_json::Value;

use super::headers::is_hop_by_hop;
use crate::idempotency::{Body, HeaderBlock, Snapshot};

const WRONG_HEADERS: &str = "headers is neither an object nor a list of [name, value] pairs";

#[derive(Deserialize)]
pub struct GivenAnswer {
    /// JSON knows no whole numbers: `201.0` is one, too.
    #[serde(default = "ok")]
    pub status: f64,
    /// Pairs of name and value, or an object of values or lists of them.
    #[serde(default)]
    pub headers: Value,
    /// A text as it is, or any other JSON.
    pub body: Option<Value>,
    /// Bytes that are no text.
    pub body_base64: Option<String>,
}

pub const fn ok() -> f64 {
    200.0
}

impl GivenAnswer {
    /// Or what is wrong with which member.
    pub fn snapshot(self) -> Result<Snapshot, String> {
        if !(200.0..=599.0).contains(&self.status) || self.status.fract() != 0.0 {
            return Err("status is not 200 to 599".to_owned());
        }
        let mut headers = headers(&self.headers)?;
        let body = match (self.body, self.body_base64) {
            (Some(_), Some(_)) => {
                return Err("body and body_base64 are both there; leave one of them out".to_owned());
            }
            (None, None) => Bytes::new(),
            (Some(Value::String(text)), None) => text.into(),
            (Some(value), None) => {
                if !headers.iter().any(|(name, _)| *name == CONTENT_TYPE) {
                    headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
                }
                value.to_string().into()
            }
            (None, Some(text)) => {
                let bytes = STANDARD.decode(text);
                bytes.map_err(|_| "body_base64 is not base64 with its padding".to_owned())?.into()
            }
        };
        let pairs =
            headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let headers = HeaderBlock::from_pairs(pairs);
        Ok(Snapshot { status: self.status as u16, headers, body: Body::Stored(body) })
    }
}

/// What is about a connection, or about the length of a body, is left out: it is worked out anew
/// for every replay.
fn headers(given: &Value) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or(WRONG_HEADERS.to_owned());
    let mut pairs = Vec::new();
    match given {
        Value::Null => {}
        Value::Object(object) => {
            for (name, value) in object {
                match value {
                    Value::Array(values) => {
                        for value in values {
                            pairs.push((name.clone(), text(value)?));
                        }
                    }
                    value => pairs.push((name.clone(), text(value)?)),
                }
            }
        }
        Value::Array(list) => {
            for pair in list {
                match pair.as_array().map(Vec::as_slice) {
                    Some([name, value]) => pairs.push((text(name)?, text(value)?)),
                    _ => return Err(WRONG_HEADERS.to_owned()),
                }
            }
        }
        _ => return Err(WRONG_HEADERS.to_owned()),
    }
    let mut headers = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let name: HeaderName =
            name.parse().map_err(|_| "headers has a name that is no header's")?;
        let value = value.parse().map_err(|_| format!("headers: {name} has a malformed value"))?;
        if !is_hop_by_hop(&name) && ![CONTENT_LENGTH, TRAILER].contains(&name) {
            headers.push((name, value));
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Snapshot, String> {
        let given: GivenAnswer = serde_json::from_str(json).map_err(|error| error.to_string())?;
        given.snapshot()
    }

    #[test]
    fn headers_may_be_an_object_or_a_list_of_pairs() {
        let object = read(
            r#"{"status":201,"body":"{}",
                "headers":{"X-A":["1","2"],"Content-Length":"9","Connection":"close"}}"#,
        );
        let pairs =
            read(r#"{"status":201.0,"body_base64":"e30=","headers":[["x-a","1"],["x-a","2"]]}"#);
        let object = object.unwrap();
        assert_eq!(object, pairs.unwrap());
        assert_eq!(&object.headers.as_bytes()[..], b"x-a: 1\r\nx-a: 2\r\n");
        assert_eq!(object.status, 201);
    }

    #[test]
    fn a_body_may_be_json_and_says_so_unless_its_headers_do() {
        let answer = read(r#"{"body":{"b":1,"a":[null]}}"#).unwrap();
        assert_eq!(answer.body, Body::Stored(Bytes::from_static(br#"{"b":1,"a":[null]}"#)));
        assert_eq!(&answer.headers.as_bytes()[..], b"content-type: application/json\r\n");
        let answer = read(r#"{"body":[],"headers":{"Content-Type":"text/x"}}"#).unwrap();
        assert_eq!(&answer.headers.as_bytes()[..], b"content-type: text/x\r\n");
        let nothing = read("{}").unwrap();
        assert_eq!((nothing.status, nothing.body), (200, Body::Stored(Bytes::new())));
        assert_eq!(read(r#"{"body":null,"body_base64":null}"#).unwrap().headers, nothing.headers);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (json, named) in [
            (r#"{"status":99}"#, "status"),
            (r#"{"status":200.5}"#, "status"),
            (r#"{"headers":7}"#, "headers"),
            (r#"{"headers":{"a b":"c"}}"#, "headers"),
            (r#"{"headers":{"a":"c\r\nd: e"}}"#, "headers: a"),
            (r#"{"headers":[["a"]]}"#, "headers"),
            (r#"{"body":"a","body_base64":"YQ=="}"#, "body"),
            (r#"{"body_base64":"a"}"#, "body_base64"),
        ] {
            let wrong = read(json).unwrap_err();
            assert!(wrong.starts_with(named), "{json}: {wrong}");
        }
    }
}
