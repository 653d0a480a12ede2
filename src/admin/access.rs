//! Who may ask the admin listener what.
//!
//! ## Why a loopback address is not enough
//! A page in a browser on this machine reaches it, too. So no request of another site is served
//! (`Origin`, `Sec-Fetch-Site`), no browser can ask for a change by a plain form (`Content-Type`),
//! and without a token the listener answers only to names of this machine: a site that points its
//! own name at 127.0.0.1 (DNS rebinding) is of the same origin, but its name gives it away. What is
//! no browser, and says nothing of where it comes from, need not say either that it sends JSON.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use sha2::{Digest, Sha256};

use super::routes::Asks;
use crate::config::Admin;
use crate::config::Secret;
use crate::http::headers::single;
use crate::http::{Body, Problem};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Digests of the tokens: comparing them tells nothing about how much of a token was right.
pub struct Access {
    operator: Option<[u8; 32]>,
    reader: Option<[u8; 32]>,
}

/// Who asks, as the audit trail names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    Operator,
    Reader,
    /// Whoever is on this machine, where no token is set.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    NoToken,
    WrongToken,
    ReadOnly,
    OtherSite,
    OtherHost,
    NotJson,
}

impl Actor {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Reader => "reader",
            Self::Local => "local",
        }
    }

    /// Reading is for all of them.
    pub const fn may_change(self) -> bool {
        !matches!(self, Self::Reader)
    }
}

impl Access {
    pub fn new(admin: &Admin) -> Self {
        let digest = |token: &Secret| Sha256::digest(token.expose().as_bytes()).into();
        Self {
            operator: admin.token.as_ref().map(digest),
            reader: admin.read_token.as_ref().map(digest),
        }
    }

    pub fn check(&self, request: &Parts, asks: Asks) -> Result<Actor, Denied> {
        let host = host(request);
        if !is_same_site(request, host) {
            return Err(Denied::OtherSite);
        }
        let actor = match self.operator {
            None if host.is_some_and(is_this_machine) => Actor::Local,
            None => return Err(Denied::OtherHost),
            Some(operator) => self.bearer(request, &operator)?,
        };
        if asks == Asks::ToChange {
            if !actor.may_change() {
                return Err(Denied::ReadOnly);
            }
            if request.method == Method::POST && is_from_browser(request) && !is_json(request) {
                return Err(Denied::NotJson);
            }
        }
        Ok(actor)
    }

    fn bearer(&self, request: &Parts, operator: &[u8; 32]) -> Result<Actor, Denied> {
        let value = single(&request.headers, &AUTHORIZATION).ok_or(Denied::NoToken)?.as_bytes();
        let (scheme, token) = value.split_at_checked(7).ok_or(Denied::WrongToken)?;
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return Err(Denied::WrongToken);
        }
        let sent: [u8; 32] = Sha256::digest(token.trim_ascii()).into();
        if is_same(&sent, operator) {
            Ok(Actor::Operator)
        } else if self.reader.is_some_and(|reader| is_same(&sent, &reader)) {
            Ok(Actor::Reader)
        } else {
            Err(Denied::WrongToken)
        }
    }
}

/// In the same time wherever they differ.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
    std::hint::black_box(difference) == 0
}

fn host(request: &Parts) -> Option<&str> {
    match request.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => single(&request.headers, &HOST)?.to_str().ok(),
    }
}

/// Browsers say where a request comes from; whatever else asks says nothing and may.
fn is_same_site(request: &Parts, host: Option<&str>) -> bool {
    let fetched_from = request.headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let by_us = matches!(fetched_from, None | Some(b"same-origin" | b"none"));
    let mut origins = request.headers.get_all(ORIGIN).iter();
    by_us
        && origins.all(|origin| {
            let origin = origin.to_str().unwrap_or_default();
            let name = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            name.is_some() && name == host
        })
}

/// They send one of these with each POST, and no page can keep them from it.
fn is_from_browser(request: &Parts) -> bool {
    [ORIGIN, SEC_FETCH_SITE].iter().any(|name| request.headers.contains_key(name))
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_json(request: &Parts) -> bool {
    let value = single(&request.headers, &CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

impl Denied {
    pub fn into_response(self) -> Response<Body> {
        let (status, code, title, detail) = match self {
            Self::NoToken => (
                StatusCode::UNAUTHORIZED,
                "token-missing",
                "A token is needed",
                "Send admin.token as Authorization: Bearer.",
            ),
            Self::WrongToken => (
                StatusCode::UNAUTHORIZED,
                "token-wrong",
                "The token is not the right one",
                "Send admin.token as Authorization: Bearer; what was sent is another one.",
            ),
            Self::ReadOnly => (
                StatusCode::FORBIDDEN,
                "read-only",
                "This token may only read",
                "Changes, and the decision API, need admin.token; this is admin.read_token.",
            ),
            Self::OtherSite => (
                StatusCode::FORBIDDEN,
                "cross-site",
                "Requests of other sites are refused",
                "A page of another site asked a browser for this; nothing was done.",
            ),
            Self::OtherHost => (
                StatusCode::FORBIDDEN,
                "host-not-local",
                "This listener answers only to names of this machine",
                "Ask for localhost, 127.0.0.1 or [::1], or set admin.token to use another name.",
            ),
            Self::NotJson => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not-json",
                "The body has to be JSON",
                "Send Content-Type: application/json.",
            ),
        };
        let mut response = Problem::new(status, code, title, detail).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer realm=\"oncegate\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn access(token: Option<&str>, read_token: Option<&str>) -> Access {
        let digest = |token: &str| Sha256::digest(token).into();
        Access { operator: token.map(digest), reader: read_token.map(digest) }
    }

    fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/api/record");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    const LOCAL: (&str, &str) = ("host", "127.0.0.1:8081");
    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    #[test]
    fn without_a_token_only_names_of_this_machine_are_answered() {
        let access = access(None, None);
        for host in ["localhost", "LOCALHOST:8081", "127.0.0.1:1", "127.9.9.9", "[::1]:8081"] {
            let asked = access.check(&parts("GET", &[("host", host)]), Asks::ToRead);
            assert_eq!(asked, Ok(Actor::Local), "{host}");
        }
        for host in ["evil.example:8081", "127.0.0.1.evil.example", "10.0.0.1", "", "localhost."] {
            let asked = access.check(&parts("GET", &[("host", host)]), Asks::ToRead);
            assert_eq!(asked, Err(Denied::OtherHost), "{host}");
        }
        assert_eq!(access.check(&parts("GET", &[]), Asks::ToRead), Err(Denied::OtherHost));
    }

    #[test]
    fn pages_of_other_sites_are_refused_and_our_own_are_not() {
        let access = access(None, None);
        for (header, allowed) in [
            (("origin", "http://127.0.0.1:8081"), true),
            (("origin", "http://evil.example"), false),
            (("origin", "http://127.0.0.1:8080"), false),
            (("origin", "null"), false),
            (("sec-fetch-site", "same-origin"), true),
            (("sec-fetch-site", "none"), true),
            (("sec-fetch-site", "cross-site"), false),
            (("sec-fetch-site", "same-site"), false),
        ] {
            let asked = access.check(&parts("DELETE", &[LOCAL, header]), Asks::ToChange);
            assert_eq!(asked.is_ok(), allowed, "{header:?}");
        }
    }

    #[test]
    fn each_token_may_do_what_it_is_for() {
        let access = access(Some("s3cret"), Some("look"));
        let check = |authorization: &str, asks| {
            // With a token the listener has any name.
            let headers = [("host", "gate.example"), ("authorization", authorization), JSON];
            access.check(&parts("POST", &headers), asks)
        };
        assert_eq!(check("Bearer s3cret", Asks::ToChange), Ok(Actor::Operator));
        assert_eq!(check("bearer s3cret", Asks::ToRead), Ok(Actor::Operator));
        assert_eq!(check("Bearer look", Asks::ToRead), Ok(Actor::Reader));
        assert_eq!(check("Bearer look", Asks::ToChange), Err(Denied::ReadOnly));
        for wrong in ["Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", ""] {
            assert_eq!(check(wrong, Asks::ToRead), Err(Denied::WrongToken), "{wrong}");
        }
        let none = access.check(&parts("GET", &[LOCAL]), Asks::ToRead);
        assert_eq!(none, Err(Denied::NoToken));
    }

    #[test]
    fn a_form_in_a_browser_cannot_ask_for_a_change() {
        let access = access(None, None);
        let check = |headers: &[_]| access.check(&parts("POST", headers), Asks::ToChange);
        let form = ("content-type", "application/x-www-form-urlencoded");
        let own = ("origin", "http://127.0.0.1:8081");
        for from in [own, ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none")] {
            for headers in [&[LOCAL, from, form][..], &[LOCAL, from]] {
                assert_eq!(check(headers), Err(Denied::NotJson), "{headers:?}");
            }
            assert!(check(&[LOCAL, from, JSON]).is_ok(), "{from:?}");
        }
        for from in [("origin", "http://evil.example"), ("origin", "null")] {
            assert_eq!(check(&[LOCAL, from, form]), Err(Denied::OtherSite), "{from:?}");
        }
    }

    #[test]
    fn what_is_no_browser_need_not_name_its_content_type() {
        let access = access(None, None);
        let check = |headers: &[_]| access.check(&parts("POST", headers), Asks::ToChange);
        let form = ("content-type", "application/x-www-form-urlencoded");
        for headers in [&[LOCAL][..], &[LOCAL, form], &[LOCAL, JSON]] {
            assert!(check(headers).is_ok(), "{headers:?}");
        }
    }
}
