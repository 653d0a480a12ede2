//! Asking the upstream what became of a call that has gone silent.
//!
//! Only a clear answer settles anything. No answer, an error or one that is not understood is
//! `unknown`: it is asked again later.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};

use crate::config::SecretUrl;
use crate::http::client::Target;
use crate::http::headers::is_hop_by_hop;
use crate::idempotency::settle::Verdict;
use crate::idempotency::{Body, Found, HeaderBlock, Snapshot};

pub const LIMIT: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 4 << 20;

pub struct Probe(Target);

/// What the upstream said, or why that is not known.
#[derive(Debug)]
pub enum Probed {
    Said(Verdict),
    Silent(String),
}

impl Probe {
    /// None: the URL cannot be used, which the configuration has said already.
    pub fn new(url: &SecretUrl) -> Option<Self> {
        Target::new(url.expose(), LIMIT, MAX_BYTES).ok().map(Self)
    }

    pub async fn ask(&self, found: &Found) -> Probed {
        let answer = match self.0.post_json(question(found).to_string().into_bytes()).await {
            Ok(answer) if answer.status.is_success() => answer.body,
            Ok(answer) => return Probed::Silent(format!("status {}", answer.status.as_u16())),
            Err(error) => return Probed::Silent(error.to_string()),
        };
        match verdict(&answer) {
            Ok(verdict) => Probed::Said(verdict),
            Err(why) => Probed::Silent(why.to_owned()),
        }
    }
}

fn question(Found { record, .. }: &Found) -> Value {
    let fingerprint = record.fingerprint.map(|fingerprint| {
        fingerprint.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    });
    json!({
        "tenant": record.identity.tenant().as_str(),
        "scope": record.identity.scope().as_str(),
        "key": record.identity.key().as_str(),
        "attempt": record.attempt,
        "fingerprint": fingerprint,
        "state": record.state.as_str(),
        "created_at": record.created_at.to_string(),
    })
}

fn verdict(answer: &[u8]) -> Result<Verdict, &'static str> {
    let answer: Value = serde_json::from_slice(answer).map_err(|_| "the answer is not JSON")?;
    match answer["outcome"].as_str() {
        Some("failed") => Ok(Verdict::Failed),
        Some("unknown") => Ok(Verdict::Unknown),
        Some("succeeded") => Ok(Verdict::Succeeded { answer: snapshot(&answer["response"])? }),
        _ => Err("its outcome is not succeeded, failed or unknown"),
    }
}

/// Without a response it is known to be done, and no more.
fn snapshot(response: &Value) -> Result<Snapshot, &'static str> {
    let response = match response {
        Value::Null => return Ok(Snapshot::of_value(Vec::new()).without_body()),
        Value::Object(response) => response,
        _ => return Err("its response is no object"),
    };
    let status = match response.get("status") {
        None => StatusCode::OK,
        Some(status) => status
            .as_u64()
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (200..600).contains(status))
            .and_then(|status| StatusCode::from_u16(status).ok())
            .ok_or("its response has no valid status")?,
    };
    let headers = headers(response.get("headers").unwrap_or(&Value::Null))?;
    let pairs = headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let headers = HeaderBlock::from_pairs(pairs);
    Ok(Snapshot { status: status.as_u16(), headers, body: Body::Stored(body(response)?) })
}

/// `body` is text; bytes that are no text come as `body_base64`.
fn body(response: &Map<String, Value>) -> Result<Bytes, &'static str> {
    match (response.get("body"), response.get("body_base64")) {
        (None | Some(Value::Null), None | Some(Value::Null)) => Ok(Bytes::new()),
        (Some(Value::String(text)), None) => Ok(Bytes::from(text.clone())),
        (None, Some(Value::String(text))) => {
            STANDARD.decode(text).map(Bytes::from).map_err(|_| "its body_base64 is not base64")
        }
        _ => Err("its body is not text"),
    }
}

/// An object, whose values may be lists, or a list of pairs. What belongs to a connection or is
/// measured again from the body is left out.
fn headers(headers: &Value) -> Result<Vec<(HeaderName, HeaderValue)>, &'static str> {
    const WRONG: &str = "its headers are neither an object nor a list of pairs";
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    match headers {
        Value::Null => {}
        Value::Object(object) => {
            for (name, value) in object {
                match value {
                    Value::Array(values) => {
                        for value in values {
                            pairs.push((name, value.as_str().ok_or(WRONG)?));
                        }
                    }
                    value => pairs.push((name, value.as_str().ok_or(WRONG)?)),
                }
            }
        }
        Value::Array(list) => {
            for pair in list {
                match pair.as_array().map(Vec::as_slice) {
                    Some([Value::String(name), Value::String(value)]) => pairs.push((name, value)),
                    _ => return Err(WRONG),
                }
            }
        }
        _ => return Err(WRONG),
    }
    let mut kept = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let name: HeaderName = name.parse().map_err(|_| "a header's name is not valid")?;
        let value = HeaderValue::from_str(value).map_err(|_| "a header's value is not valid")?;
        if !is_hop_by_hop(&name) && name != CONTENT_LENGTH {
            kept.push((name, value));
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(json: &str) -> Snapshot {
        match verdict(json.as_bytes()) {
            Ok(Verdict::Succeeded { answer }) => answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn headers_may_be_an_object_or_a_list_of_pairs() {
        let object = answered(
            r#"{"outcome":"succeeded","response":{"status":201,"body":"{}",
                "headers":{"X-A":["1","2"],"Content-Length":"9","Connection":"close"}}}"#,
        );
        let pairs = answered(
            r#"{"outcome":"succeeded","response":{"status":201,"body_base64":"e30=",
                "headers":[["x-a","1"],["x-a","2"]]}}"#,
        );
        assert_eq!(object, pairs);
        assert_eq!(&object.headers.as_bytes()[..], b"x-a: 1\r\nx-a: 2\r\n");
        assert_eq!(object.status, 201);
    }

    #[test]
    fn a_success_without_a_response_is_done_without_a_body() {
        assert_eq!(answered(r#"{"outcome":"succeeded"}"#).body, Body::TooLong);
    }

    #[test]
    fn what_is_not_understood_settles_nothing() {
        for answer in [
            "",
            "ok",
            "[]",
            r#"{"outcome":"done"}"#,
            r#"{"outcome":"succeeded","response":7}"#,
            r#"{"outcome":"succeeded","response":{"status":99}}"#,
            r#"{"outcome":"succeeded","response":{"headers":{"a b":"c"}}}"#,
            r#"{"outcome":"succeeded","response":{"headers":{"a":"c\r\nd: e"}}}"#,
            r#"{"outcome":"succeeded","response":{"body":{}}}"#,
        ] {
            assert!(verdict(answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
