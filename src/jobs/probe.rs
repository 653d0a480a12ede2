//! Asking the upstream what became of a call that has gone silent.
//!
//! Only a clear answer settles anything. No answer, an error or one that is not understood is
//! `unknown`: it is asked again later.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::SecretUrl;
use crate::http::GivenAnswer;
use crate::http::client::Target;
use crate::idempotency::settle::Verdict;
use crate::idempotency::{Found, Snapshot};

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
            Err(why) => Probed::Silent(why),
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

fn verdict(answer: &[u8]) -> Result<Verdict, String> {
    let answer: Value = serde_json::from_slice(answer).map_err(|_| "the answer is not JSON")?;
    match answer["outcome"].as_str() {
        Some("failed") => Ok(Verdict::Failed),
        Some("unknown") => Ok(Verdict::Unknown),
        Some("succeeded") => match snapshot(&answer["response"]) {
            Ok(answer) => Ok(Verdict::Succeeded { answer }),
            Err(why) => Err(format!("its response: {why}")),
        },
        _ => Err("its outcome is not succeeded, failed or unknown".to_owned()),
    }
}

/// Without a response it is known to be done, and no more.
fn snapshot(response: &Value) -> Result<Snapshot, String> {
    if response.is_null() {
        return Ok(Snapshot::of_value(Vec::new()).without_body());
    }
    let given = GivenAnswer::deserialize(response);
    given.map_err(|error| error.to_string())?.snapshot()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::idempotency::Body;

    fn answered(json: &str) -> Snapshot {
        match verdict(json.as_bytes()) {
            Ok(Verdict::Succeeded { answer }) => answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_response_is_read_as_an_operators_is() {
        let answer = answered(
            r#"{"outcome":"succeeded","response":{"status":201,"body":{"id":7},"more":true}}"#,
        );
        assert_eq!((answer.status, answer.body), (201, Body::Stored(Bytes::from(r#"{"id":7}"#))));
        assert_eq!(&answer.headers.as_bytes()[..], b"content-type: application/json\r\n");
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
            r#"{"outcome":"succeeded","response":{"status":null}}"#,
            r#"{"outcome":"succeeded","response":{"headers":{"a b":"c"}}}"#,
            r#"{"outcome":"succeeded","response":{"body":"a","body_base64":"YQ=="}}"#,
        ] {
            assert!(verdict(answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
