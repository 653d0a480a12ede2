//! What a request looks like in the HTTP version it goes out in.
//!
//! HTTP/1 names its host in a header, HTTP/2 in the target. A request that comes back unsent may go
//! out in the other version next, so both ways can be undone.

use http::header::HOST;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Request, Uri, Version};

use super::address::Address;

pub fn for_http1<B>(request: &mut Request<B>) {
    *request.version_mut() = Version::HTTP_11;
    if request.uri().scheme().is_none() {
        return;
    }
    if let Some(authority) = request.uri().authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        request.headers_mut().entry(HOST).or_insert(host);
    }
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.unwrap_or_else(root).into();
}

/// The headers that HTTP/2 forbids are taken out by the HTTP library.
pub fn for_http2<B>(request: &mut Request<B>, address: &Address) {
    *request.version_mut() = Version::HTTP_2;
    let host = request.headers_mut().remove(HOST);
    if request.uri().scheme().is_some() {
        return;
    }
    let named = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(address.scheme.clone());
    parts.authority = named.or_else(|| address.authority.clone());
    parts.path_and_query.get_or_insert_with(root);
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

fn root() -> PathAndQuery {
    PathAndQuery::from_static("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Http2;

    #[test]
    fn a_request_goes_out_in_either_version_and_back() {
        let url = "https://10.0.0.1:8443".parse().unwrap();
        let address = Address::new(&url, Http2::Auto);
        for (host, seen) in [(Some("shop.example:81"), "shop.example:81"), (None, "10.0.0.1:8443")]
        {
            let mut request = Request::new(());
            *request.uri_mut() = "/a/b?c=%20d".parse().unwrap();
            if let Some(host) = host {
                request.headers_mut().insert(HOST, host.parse().unwrap());
            }
            for_http2(&mut request, &address);
            assert_eq!(request.uri().to_string(), format!("https://{seen}/a/b?c=%20d"));
            assert_eq!(request.version(), Version::HTTP_2);
            assert!(!request.headers().contains_key(HOST));
            for_http1(&mut request);
            assert_eq!(request.uri().to_string(), "/a/b?c=%20d");
            assert_eq!(request.version(), Version::HTTP_11);
            assert_eq!(request.headers()[HOST], seen);
        }
    }
}
