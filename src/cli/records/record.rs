//! A record as the admin API tells it, in words.

use std::time::Duration;

use serde::Deserialize;

use super::text::{escaped, shortened, span};
use crate::clock::Timestamp;
use crate::engine::inspect::Kind;

/// How much of an error a line of a list shows.
const ERROR_LENGTH: usize = 60;

#[derive(Deserialize)]
pub struct Record {
    pub tenant: String,
    pub scope: String,
    pub key: String,
    pub state: Kind,
    pub attempt: u32,
    pub fingerprint: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub lease_until: Option<Timestamp>,
    pub next_retry_at: Option<Timestamp>,
    pub retries: Option<Retries>,
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
    pub result_ref: Option<String>,
    pub response: Option<Response>,
    pub now: Option<Timestamp>,
    #[serde(default)]
    pub audit: Vec<AuditLine>,
}

/// What a failed record does to retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retries {
    Execute,
    Replay,
    Refuse,
}

#[derive(Deserialize)]
pub struct Response {
    pub status: u16,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
    pub body_stored: Option<bool>,
    pub body_bytes: Option<u64>,
}

#[derive(Deserialize)]
pub struct AuditLine {
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub note: String,
}

impl AuditLine {
    /// Who did what, and why. Lines of earlier versions do not say how a record was resolved.
    pub fn told(&self) -> String {
        let done = match self.action.as_str() {
            "resolve" => "resolved".to_owned(),
            "forget" => "forgotten".to_owned(),
            action => escaped(action),
        };
        let why = match self.note.is_empty() {
            true => String::new(),
            false => format!(": {}", escaped(&self.note)),
        };
        format!("{done} by {}{why}", escaped(&self.actor))
    }
}

impl Record {
    /// The clock that wrote the times, when this was read.
    pub fn now(&self) -> Timestamp {
        self.now.unwrap_or(self.updated_at)
    }

    /// How long it has been as it is.
    pub fn age(&self, now: Timestamp) -> Duration {
        now.since(self.updated_at)
    }

    pub fn is_running(&self, now: Timestamp) -> bool {
        self.state == Kind::Processing && self.lease_until.is_some_and(|until| until > now)
    }

    /// Its three names, for a sentence.
    pub fn named(&self) -> String {
        let tenant = match self.tenant.is_empty() {
            true => "no tenant".to_owned(),
            false => format!("tenant {}", escaped(&self.tenant)),
        };
        format!("{}, scope {}, {tenant}", escaped(&self.key), escaped(&self.scope))
    }

    /// What became of it, in a few words.
    pub fn happened(&self, now: Timestamp) -> String {
        let error = self.last_error.as_deref().map(|error| shortened(error, ERROR_LENGTH));
        let status = self.response.as_ref().map(|response| response.status);
        match (self.state, status) {
            (Kind::Processing, _) => {
                let until = self.lease_until.unwrap_or(now);
                match until > now {
                    true => format!("running; its lease lasts {} more", span(until.since(now))),
                    false => format!("abandoned; its lease ended {} ago", span(now.since(until))),
                }
            }
            (Kind::Succeeded, Some(status)) => format!("answered {status}{}", self.kept(now)),
            (Kind::Succeeded, None) => format!("done{}", self.kept(now)),
            (Kind::Unknown, _) => match error {
                Some(error) => format!("outcome unknown: {error}"),
                None => "outcome unknown: no answer came".to_owned(),
            },
            (Kind::Failed, _) => {
                let failed = error.unwrap_or_else(|| match status {
                    Some(status) => format!("answered {status}"),
                    None => "failed".to_owned(),
                });
                match (self.retries, self.next_retry_at) {
                    (Some(Retries::Execute), Some(from)) if from > now => {
                        format!("{failed}; a retry runs it again in {}", span(from.since(now)))
                    }
                    (Some(Retries::Execute), _) => format!("{failed}; a retry runs it again"),
                    (Some(Retries::Replay), _) => format!("{failed}; retries get this answer"),
                    (Some(Retries::Refuse), _) => format!("{failed}; retries are refused"),
                    (None, _) => failed,
                }
            }
        }
    }

    fn kept(&self, now: Timestamp) -> String {
        self.expires_at.map_or_else(String::new, |at| format!("; kept for {}", span(at.since(now))))
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub const NOW: &str = "2026-11-18T13:20:00.000Z";

    /// A record of six minutes ago.
    pub fn record(more: Value) -> Record {
        let mut record = json!({
            "tenant": "", "scope": "payment", "key": "order-7", "state": "UNKNOWN", "attempt": 1,
            "fingerprint": null, "created_at": "2026-11-18T13:13:59.000Z",
            "updated_at": "2026-11-18T13:14:00.000Z", "now": NOW,
        });
        for (name, value) in more.as_object().unwrap() {
            record[name] = value.clone();
        }
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn each_state_is_told_in_a_few_words() {
        let later = "2026-11-19T12:20:01.000Z";
        for (more, told) in [
            (
                json!({ "state": "PROCESSING", "lease_until": "2026-11-18T13:20:30.000Z" }),
                "running; its lease lasts 30s more",
            ),
            (
                json!({ "state": "PROCESSING", "lease_until": "2026-11-18T13:14:30.000Z" }),
                "abandoned; its lease ended 5m ago",
            ),
            (
                json!({ "state": "SUCCEEDED", "expires_at": later, "response": { "status": 201 } }),
                "answered 201; kept for 23h",
            ),
            (json!({}), "outcome unknown: no answer came"),
            (
                json!({ "last_error": "lost\u{1b}[2J", "next_retry_at": later }),
                r"outcome unknown: lost\u{1b}[2J",
            ),
            (
                json!({ "state": "FAILED", "retries": "execute", "next_retry_at": later,
                        "last_error": "status 500" }),
                "status 500; a retry runs it again in 23h",
            ),
            (
                json!({ "state": "FAILED", "retries": "execute", "next_retry_at": NOW }),
                "failed; a retry runs it again",
            ),
            (json!({ "state": "FAILED", "retries": "refuse" }), "failed; retries are refused"),
            (
                json!({ "state": "FAILED", "retries": "replay", "response": { "status": 500 } }),
                "answered 500; retries get this answer",
            ),
        ] {
            let record = record(more);
            assert_eq!(record.happened(record.now()), told);
        }
    }

    #[test]
    fn lines_of_an_older_trail_are_told_like_those_of_today() {
        let line = |action: &str, note: &str| {
            let line = json!({ "at": NOW, "actor": "operator", "action": action, "note": note });
            serde_json::from_value::<AuditLine>(line).unwrap().told()
        };
        assert_eq!(line("resolve", "seen"), "resolved by operator: seen");
        assert_eq!(line("forget", ""), "forgotten by operator");
        assert_eq!(line("resolved as failed", "no"), "resolved as failed by operator: no");
    }
}
