//! Every way in which a request does not get an upstream's answer, in one enum.
//!
//! `as_str` is the problem's code, the value of `Idempotency-Status` and the word in logs. What is
//! told says what happened and what to do, and nothing about the stored request or answer.

use std::time::Duration;

use http::{Response, StatusCode};

use crate::http::{Body, BodyFault, Problem};
use crate::idempotency::Refusal;
use crate::idempotency::key::KeyError;
use crate::telemetry::metrics::Outcome;

#[derive(Debug)]
pub enum Rejection {
    KeyMissing {
        from: String,
    },
    KeyInvalid(KeyError),
    KeyRepeated,
    BodyInvalid(String),
    BodyTooLarge {
        max: usize,
    },
    /// The client stopped sending.
    BodyBrokeOff,
    RateLimited {
        retry_after: Duration,
    },
    Refused(Refusal, StatusCode),
    /// The answer came, but another attempt owns the record.
    Superseded,
    StoreUnavailable,
    Overloaded,
    UpstreamBusy,
    UpstreamUnreachable,
    UpstreamTimeout,
    UpstreamBrokeOff,
    BadRequest(&'static str),
}

impl From<BodyFault> for Rejection {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::Malformed => Self::BadRequest(
                "The request's body cannot be told apart from what follows: its chunks are not \
                 valid.",
            ),
            BodyFault::BrokeOff => Self::BodyBrokeOff,
        }
    }
}

const SOON: Duration = Duration::from_secs(1);

impl Rejection {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::KeyMissing { .. } => "key-missing",
            Self::KeyInvalid(_) | Self::KeyRepeated => "key-invalid",
            Self::BodyInvalid(_) => "body-invalid",
            Self::BodyTooLarge { .. } => "body-too-large",
            Self::BodyBrokeOff => "body-incomplete",
            Self::RateLimited { .. } => "rate-limited",
            Self::Refused(refusal, _) => refusal.as_str(),
            Self::Superseded => "in-progress",
            Self::StoreUnavailable => "store-unavailable",
            Self::Overloaded => "overloaded",
            Self::UpstreamBusy => "upstream-busy",
            Self::UpstreamUnreachable => "upstream-unreachable",
            Self::UpstreamTimeout => "upstream-timeout",
            Self::UpstreamBrokeOff => "upstream-broke-off",
            Self::BadRequest(_) => "bad-request",
        }
    }

    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(refusal, _) => match refusal {
                Refusal::KeyReused => Outcome::Mismatch,
                Refusal::InProgress { .. } => Outcome::InProgress,
                Refusal::OutcomeUnknown { .. } => Outcome::Unknown,
                Refusal::AttemptFailed { .. } => Outcome::Failed,
                Refusal::ResponseNotStored { .. } | Refusal::CredentialMismatch => {
                    Outcome::Rejected
                }
            },
            Self::Superseded => Outcome::InProgress,
            Self::UpstreamTimeout | Self::UpstreamBrokeOff => Outcome::Unknown,
            Self::UpstreamUnreachable => Outcome::Failed,
            _ => Outcome::Rejected,
        }
    }

    pub fn into_response(self) -> Response<Body> {
        self.problem().into_response()
    }

    fn problem(self) -> Problem {
        let code = self.as_str();
        let new = |status, title, detail| Problem::new(status, code, title, detail);
        match self {
            Self::KeyMissing { from } => Problem::new(
                StatusCode::BAD_REQUEST,
                code,
                "An idempotency key is required",
                format!(
                    "This operation must not run twice by accident, so it needs an idempotency \
                     key in {from}. Send a fresh unique value, such as a UUID, with each new \
                     operation, and the same value with its retries."
                ),
            ),
            Self::KeyInvalid(error) => Problem::new(
                StatusCode::BAD_REQUEST,
                code,
                "The idempotency key is not valid",
                sentence(&error.to_string()),
            ),
            Self::KeyRepeated => new(
                StatusCode::BAD_REQUEST,
                "The idempotency key is not valid",
                "The request has more than one idempotency key. Send exactly one.",
            ),
            Self::BodyInvalid(why) => Problem::new(
                StatusCode::BAD_REQUEST,
                code,
                "The body cannot be read",
                sentence(&why),
            ),
            Self::BodyTooLarge { max } => Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                code,
                "The body is too large",
                format!("A request with an idempotency key may have at most {max} bytes here."),
            ),
            Self::BodyBrokeOff => new(
                StatusCode::REQUEST_TIMEOUT,
                "The body did not arrive",
                "The request's body stopped before its end. Nothing was executed; send it again \
                 with the same key.",
            )
            .retryable(),
            Self::RateLimited { retry_after } => new(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many requests",
                "This caller has used up its rate for now. Nothing was executed; send it again \
                 later with the same key.",
            )
            .retry_after(retry_after),
            Self::Refused(refusal, mismatch_status) => refused(refusal, code, mismatch_status),
            Self::Superseded => new(
                StatusCode::CONFLICT,
                "Another attempt took over",
                "While this attempt ran, another one took over, and its outcome counts. Send the \
                 request again with the same key to get it.",
            )
            .retry_after(SOON),
            Self::StoreUnavailable => new(
                StatusCode::SERVICE_UNAVAILABLE,
                "The record of requests is not available",
                "Without it nobody can tell whether this operation has run, so nothing was \
                 forwarded. Send it again later with the same key.",
            )
            .retry_after(SOON),
            Self::Overloaded => new(
                StatusCode::SERVICE_UNAVAILABLE,
                "The gateway is busy",
                "There are more requests in flight than allowed. Nothing was forwarded; send it \
                 again later with the same key.",
            )
            .retry_after(SOON),
            Self::UpstreamBusy => new(
                StatusCode::SERVICE_UNAVAILABLE,
                "All connections to the API are busy",
                "None became free in time. Nothing was forwarded; send it again later with the \
                 same key.",
            )
            .retry_after(SOON),
            Self::UpstreamUnreachable => new(
                StatusCode::BAD_GATEWAY,
                "The API cannot be reached",
                "No connection to it could be made. Nothing was executed; send it again with the \
                 same key.",
            )
            .retryable(),
            Self::UpstreamTimeout => new(
                StatusCode::GATEWAY_TIMEOUT,
                "The API did not answer in time",
                "The request was sent and may have been executed. A retry with the same key is \
                 safe: it never executes what may have run, unless this route allows that.",
            ),
            Self::UpstreamBrokeOff => new(
                StatusCode::BAD_GATEWAY,
                "The API broke off",
                "The request was sent and may have been executed. A retry with the same key is \
                 safe: it never executes what may have run, unless this route allows that.",
            ),
            Self::BadRequest(why) => new(StatusCode::BAD_REQUEST, "The request is malformed", why),
        }
    }
}

fn refused(refusal: Refusal, code: &'static str, mismatch_status: StatusCode) -> Problem {
    let conflict = |title, detail| Problem::new(StatusCode::CONFLICT, code, title, detail);
    match refusal {
        Refusal::KeyReused => Problem::new(
            mismatch_status,
            code,
            "The idempotency key was used for another request",
            "A key stands for one request and its retries. Send this request with a new key.",
        ),
        Refusal::InProgress { retry_after } => conflict(
            "The request is still running",
            "An earlier request with this key has not ended yet. Send it again later with the \
             same key to get its answer.",
        )
        .retry_after(retry_after),
        Refusal::OutcomeUnknown { retry_after: None } => conflict(
            "The outcome is unknown",
            "An earlier request with this key was sent to the API, and its answer was lost. It is \
             not sent again until it has been found out what happened.",
        ),
        Refusal::OutcomeUnknown { retry_after: Some(pause) } => conflict(
            "The outcome is unknown",
            "An earlier request with this key was sent to the API, and its answer was lost. It may \
             be sent again after a pause.",
        )
        .retry_after(pause),
        Refusal::AttemptFailed { retry_after: None } => conflict(
            "An earlier attempt failed",
            "This request has failed and is not executed again with this key.",
        ),
        Refusal::AttemptFailed { retry_after: Some(pause) } => conflict(
            "An earlier attempt failed",
            "This request has failed and may be executed again with the same key after a pause.",
        )
        .retry_after(pause),
        Refusal::ResponseNotStored { original_status } => conflict(
            "The answer was too long to store",
            "This request has been executed. Its answer went to whoever sent it first and cannot \
             be repeated; original_status is the status it had.",
        )
        .member("original_status", original_status),
        Refusal::CredentialMismatch => conflict(
            "The credential is another one",
            "A request with this key was made with another credential, and only that one gets its \
             answer. Use the first credential, or a new key for a new request.",
        ),
    }
}

/// Errors of the library start small and end without a stop.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    let mut sentence: String = first.chain(characters).collect();
    if !sentence.ends_with('.') {
        sentence.push('.');
    }
    sentence
}
