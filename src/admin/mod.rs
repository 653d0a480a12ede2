//! The operator's side: metrics now; records and the console will stand here, too.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use crate::http::Body;
use crate::telemetry::prometheus::Exposition;

/// `GET /metrics`.
pub fn metrics(exposition: &Exposition) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(exposition.text())));
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}
