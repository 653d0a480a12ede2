//! `GET /openapi.json`: a document that is written by hand and held to the table of routes by a test.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use crate::http::Body;

const DOCUMENT: &str = include_str!("openapi.json");

pub fn document() -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from_static(DOCUMENT.as_bytes())));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::admin::routes::TABLE;

    #[test]
    fn the_description_has_the_paths_and_methods_of_the_code_and_no_others() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let described: BTreeSet<_> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().unwrap().keys();
                methods.map(move |method| (path.clone(), method.to_uppercase()))
            })
            .collect();
        let served: BTreeSet<_> = TABLE
            .iter()
            .map(|entry| (entry.path.to_owned(), entry.method.as_str().to_owned()))
            .collect();
        assert_eq!(described, served);
    }
}
