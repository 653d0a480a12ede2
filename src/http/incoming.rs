//! Reading what is sent to our own listeners: JSON, whole, within a limit of bytes and time.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Map, Value};

use super::Problem;

const PATIENCE: Duration = Duration::from_secs(30);

/// A JSON object, whatever the content type says: who may leave that out was decided before.
pub async fn object(request: Request<Incoming>, max: usize) -> Result<Map<String, Value>, Problem> {
    let body = whole(request.into_body(), max).await?;
    match serde_json::from_slice(&body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(invalid("The body is JSON, but no object.")),
        Err(error) => Err(invalid(format!("The body is not JSON: {error}."))),
    }
}

pub fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid-request", "Invalid request", detail)
}

async fn whole(body: Incoming, max: usize) -> Result<Bytes, Problem> {
    let reading = Limited::new(body, max).collect();
    match tokio::time::timeout(PATIENCE, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("A request here has at most {max} bytes.");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            Err(Problem::new(status, "body-too-large", "Body too large", detail))
        }
        Ok(Err(_)) => Err(invalid("The body broke off.")),
        Err(_) => {
            let detail = "The body did not arrive in time.";
            let status = StatusCode::REQUEST_TIMEOUT;
            Err(Problem::new(status, "body-timeout", "Body too slow", detail).retryable())
        }
    }
}
