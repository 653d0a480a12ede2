//! Refusals as `application/problem+json` (RFC 9457): what happened, why, and whether to retry.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use super::Body;

#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    /// The last part of `type`, and the word for logs and headers.
    pub code: &'static str,
    pub title: &'static str,
    /// Says what to do about it; shows nothing of a stored request or answer.
    pub detail: Cow<'static, str>,
    /// Whether the same request can succeed later.
    pub retryable: bool,
    pub retry_after: Option<Duration>,
    /// Members besides the usual ones.
    pub members: Vec<(String, Value)>,
}

impl Problem {
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let detail = detail.into();
        let (retry_after, members) = (None, Vec::new());
        Self { status, code, title, detail, retryable: false, retry_after, members }
    }

    pub fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    pub fn retry_after(self, pause: Duration) -> Self {
        Self { retryable: true, retry_after: Some(pause), ..self }
    }

    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.push((name.into(), value.into()));
        self
    }

    pub fn into_response(self) -> Response<Body> {
        let mut document = json!({
            "type": format!("urn:oncegate:problem:{}", self.code),
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
            "retryable": self.retryable,
        });
        if let Value::Object(object) = &mut document {
            object.extend(self.members);
        }
        let mut response = Response::new(Body::from(Bytes::from(document.to_string())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(pause) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(pause)));
        }
        response
    }
}

/// Rounded up: a client that comes back earlier would be refused again.
fn whole_seconds(pause: Duration) -> u64 {
    (pause.as_secs() + u64::from(pause.subsec_nanos() > 0)).max(1)
}
