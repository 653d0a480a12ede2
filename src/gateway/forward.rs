//! What goes to the upstream: the client's request without what was about the client's connection,
//! and with who asked for it.

use std::fmt::{self, Write};
use std::net::IpAddr;

use http::header::{CONNECTION, FORWARDED, HOST, TE, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};

use super::rejection::Rejection;
use crate::http::headers;
use crate::http::server::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// Set by the gateway alone: an upstream may believe them.
pub const IDEMPOTENCY_SCOPE: HeaderName = HeaderName::from_static("idempotency-scope");
pub const IDEMPOTENCY_ATTEMPT: HeaderName = HeaderName::from_static("idempotency-attempt");

/// For a usual list, so that it is not moved while it grows.
const ROOM: usize = 96;

/// Whether the client wants to leave HTTP behind on this connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upgrade {
    None,
    To(HeaderValue),
}

/// Turns a request's head into the one that is sent. `own_host` stands in where the client named
/// no host, which only HTTP/1.0 may do.
pub fn outgoing(
    head: &mut Parts,
    peer: Peer,
    own_host: &HeaderValue,
) -> Result<Upgrade, Rejection> {
    if head.method == Method::CONNECT {
        return Err(Rejection::BadRequest("This is a gateway to one API, not a CONNECT proxy."));
    }
    if head.uri.authority().is_some() && head.uri.scheme().is_none() {
        return Err(Rejection::BadRequest("The request's target is neither a path nor a URL."));
    }
    let host = host(head, own_host)?;
    let upgrade = upgrade(head);
    let trailers = headers::has_token(&head.headers, &TE, "trailers");
    let headers = &mut head.headers;
    headers::end_hop(headers);
    headers.remove(IDEMPOTENCY_SCOPE);
    headers.remove(IDEMPOTENCY_ATTEMPT);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    say_who_asked(headers, peer, &host);
    headers.insert(HOST, host);
    if let Upgrade::To(protocol) = &upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    }
    if head.uri.authority().is_some() || head.uri.path_and_query().is_none() {
        let path = head.uri.path_and_query().cloned();
        head.uri = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
    }
    head.version = Version::HTTP_11;
    Ok(upgrade)
}

/// The target's own authority counts more than a header beside it (RFC 9112, 3.2.2).
fn host(head: &Parts, own_host: &HeaderValue) -> Result<HeaderValue, Rejection> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(Rejection::BadRequest("The request has more than one Host."));
    }
    if let Some(authority) = head.uri.authority() {
        let bare = authority.as_str().rsplit('@').next().unwrap_or_default();
        return HeaderValue::from_str(bare)
            .map_err(|_| Rejection::BadRequest("The request's target has no valid host."));
    }
    match host {
        Some(host) if is_host(host.as_bytes()) => Ok(host.clone()),
        Some(_) => Err(Rejection::BadRequest("The request's Host is not valid.")),
        None if head.version == Version::HTTP_11 => {
            Err(Rejection::BadRequest("The request has no Host."))
        }
        None => Ok(own_host.clone()),
    }
}

/// What could make an upstream see another target than we did is refused.
fn is_host(host: &[u8]) -> bool {
    host.iter().all(|b| b.is_ascii_graphic() && !b"/\\?#@,\"<>".contains(b))
}

fn upgrade(head: &Parts) -> Upgrade {
    match head.headers.get(UPGRADE) {
        Some(protocol)
            if head.version == Version::HTTP_11
                && headers::has_token(&head.headers, &CONNECTION, "upgrade") =>
        {
            Upgrade::To(protocol.clone())
        }
        _ => Upgrade::None,
    }
}

fn say_who_asked(headers: &mut HeaderMap, peer: Peer, host: &HeaderValue) {
    let client = peer.address.ip().to_canonical();
    let scheme = peer.scheme.as_str();
    append(headers, X_FORWARDED_FOR, format_args!("{client}"));
    headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(scheme));
    headers.insert(X_FORWARDED_HOST, host.clone());
    let host = host.to_str().unwrap_or_default();
    match client {
        IpAddr::V4(address) => {
            append(
                headers,
                FORWARDED,
                format_args!("for={address};host=\"{host}\";proto={scheme}"),
            );
        }
        IpAddr::V6(address) => append(
            headers,
            FORWARDED,
            format_args!("for=\"[{address}]\";host=\"{host}\";proto={scheme}"),
        ),
    }
}

/// Adds to a list that proxies before us may have begun.
fn append(headers: &mut HeaderMap, name: HeaderName, item: fmt::Arguments<'_>) {
    let mut list = String::with_capacity(ROOM);
    for value in headers.get_all(&name).iter().filter_map(|value| value.to_str().ok()) {
        list.push_str(value);
        list.push_str(", ");
    }
    // Into memory: it cannot fail.
    let _ = list.write_fmt(item);
    if let Ok(list) = HeaderValue::try_from(list) {
        headers.insert(name, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::server::Scheme;

    const PEER: Peer = Peer {
        address: std::net::SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7),
        scheme: Scheme::Http,
    };

    fn sent(target: &str, headers: &[(&'static str, &'static str)]) -> Result<Parts, Rejection> {
        let mut request = http::Request::builder().method("POST").uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut head = request.body(()).unwrap().into_parts().0;
        outgoing(&mut head, PEER, &HeaderValue::from_static("own")).map(|_| head)
    }

    #[test]
    fn what_is_about_the_clients_connection_ends_here() {
        let head = sent(
            "/a?b",
            &[
                ("host", "api"),
                ("connection", "keep-alive, X-Private"),
                ("keep-alive", "timeout=5"),
                ("x-private", "1"),
                ("te", "trailers, deflate"),
                ("transfer-encoding", "chunked"),
                ("proxy-authorization", "Basic x"),
                ("upgrade", "h2c"),
                ("x-public", "2"),
                ("idempotency-scope", "forged"),
                ("idempotency-attempt", "9"),
            ],
        )
        .unwrap();
        let names: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
        let expected = [
            "x-public",
            "te",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "forwarded",
            "host",
        ];
        for name in expected {
            assert!(names.contains(&name), "{name} is missing: {names:?}");
        }
        assert_eq!(names.len(), expected.len(), "{names:?}");
        assert_eq!(head.headers["te"], "trailers");
        assert_eq!(head.uri, "/a?b");
    }

    #[test]
    fn who_asked_is_appended_to_who_asked_before() {
        let head = sent("/", &[("host", "api:1"), ("x-forwarded-for", "10.1.1.1")]).unwrap();
        assert_eq!(head.headers["x-forwarded-for"], "10.1.1.1, 127.0.0.1");
        assert_eq!(head.headers["x-forwarded-proto"], "http");
        assert_eq!(head.headers["x-forwarded-host"], "api:1");
        assert_eq!(head.headers["forwarded"], "for=127.0.0.1;host=\"api:1\";proto=http");
    }

    #[test]
    fn an_absolute_target_becomes_a_path_and_names_the_host() {
        let head = sent("http://real:8/a?b", &[("host", "other")]).unwrap();
        assert_eq!(
            (head.uri.to_string().as_str(), &head.headers["host"]),
            ("/a?b", &"real:8".parse::<HeaderValue>().unwrap())
        );
    }

    #[test]
    fn a_target_that_only_connect_may_use_is_refused() {
        assert!(matches!(sent("api:80", &[("host", "api")]), Err(Rejection::BadRequest(_))));
    }

    #[test]
    fn a_host_that_could_be_read_in_two_ways_is_refused() {
        for headers in [
            &[][..],
            &[("host", "a"), ("host", "b")],
            &[("host", "a, b")],
            &[("host", "a/b")],
            &[("host", "u@a")],
        ] {
            assert!(matches!(sent("/", headers), Err(Rejection::BadRequest(_))), "{headers:?}");
        }
    }
}
