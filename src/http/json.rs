//! Answers of our own listeners, as JSON.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::{Body, Problem};

pub fn answer<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    let Ok(text) = serde_json::to_vec(value) else {
        let title = "The answer cannot be written";
        let detail = "This is a mistake in oncegate; please report it.";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        return Problem::new(status, "internal", title, detail).into_response();
    };
    let mut response = Response::new(Body::from(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // It is about this moment.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
