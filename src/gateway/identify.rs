//! Who asks for what: the tenant, the key and the fingerprint of a request, as its route reads them.
//!
//! Pure. A request without a key is not a mistake here: whether it needs one is for the route.

use std::borrow::Cow;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::rejection::Rejection;
use crate::config::{KeyFrom, Route, TenantFrom};
use crate::idempotency::canonical_json::{CanonicalError, TextAt, text_at};
use crate::idempotency::decide::Asked;
use crate::idempotency::fingerprint::RequestParts;
use crate::idempotency::key::{KeyError, KeyRules};
use crate::idempotency::{Credential, Identity, Key, Tenant};

pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// What the head of a request says about its key.
pub enum KeyInHead {
    Present(Key),
    Absent,
    /// It is in the body, or is made of it.
    InBody,
}

pub fn key_in_head(route: &Route, headers: &HeaderMap) -> Result<KeyInHead, Rejection> {
    let KeyFrom::Header(name) = &route.key_from else {
        return Ok(KeyInHead::InBody);
    };
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(KeyInHead::Absent),
        (Some(value), None) => Key::from_header(value.as_bytes(), &route.key_rules)
            .map(KeyInHead::Present)
            .map_err(Rejection::KeyInvalid),
        (Some(_), Some(_)) => Err(Rejection::KeyRepeated),
    }
}

pub fn tenant(route: &Route, headers: &HeaderMap) -> Tenant {
    match &route.tenant_from {
        TenantFrom::Header(name) => {
            joined(headers, name).map_or_else(Tenant::none, |value| Tenant::from_header(&value))
        }
        TenantFrom::Credential => {
            Tenant::from_credential(joined(headers, &AUTHORIZATION).as_deref())
        }
        TenantFrom::None => Tenant::none(),
    }
}

/// None: there is no key.
pub fn identify(
    route: &Route,
    head: &Parts,
    body: &[u8],
    key: KeyInHead,
    tenant: Tenant,
) -> Result<Option<(Identity, Asked)>, Rejection> {
    let request = RequestParts {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query(),
        body,
    };
    let values = |name: &str| head.headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let fingerprint = route
        .fingerprint
        .fingerprint(&request, values)
        .map_err(|error| Rejection::BodyInvalid(error.to_string()));
    let key = match (key, &route.key_from) {
        (KeyInHead::Present(key), _) => key,
        (KeyInHead::Absent, _) => return Ok(None),
        (KeyInHead::InBody, KeyFrom::Body(pointer)) => match text_at(body, pointer) {
            Ok(TextAt::Text(text)) => key_in_body(&text, &route.key_rules)?,
            // Whoever sent it believes to be protected.
            Ok(TextAt::NoText) => return Err(Rejection::KeyInvalid(KeyError::NotText)),
            // A body that is no JSON has no key in it.
            Ok(TextAt::Absent) | Err(CanonicalError::Syntax(_)) => return Ok(None),
            Err(error) => return Err(Rejection::BodyInvalid(error.to_string())),
        },
        (KeyInHead::InBody, _) => match &fingerprint {
            Ok(fingerprint) => Key::from_fingerprint(fingerprint),
            Err(_) => return fingerprint.map(|_| None),
        },
    };
    let credential = joined(&head.headers, &AUTHORIZATION).map(|value| Credential::of(&value));
    let asked = Asked { fingerprint: Some(fingerprint?), credential };
    Ok(Some((Identity::new(tenant, route.scope.clone(), key), asked)))
}

fn key_in_body(text: &str, rules: &KeyRules) -> Result<Key, Rejection> {
    Key::new(text, rules).map_err(Rejection::KeyInvalid)
}

/// How long this request waits for a running duplicate: what the client prefers, up to the most
/// that the route allows, or what the route says.
pub fn wait(route: &Route, headers: &HeaderMap) -> Duration {
    preferred_wait(headers).map_or(route.policy.wait, |wait| wait.min(route.wait_max))
}

/// `Prefer: respond-async, wait=10` (RFC 7240).
fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split([',', ';'])).find_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        let seconds = value.trim().trim_matches('"').parse().ok().map(Duration::from_secs);
        seconds.filter(|_| name.trim().eq_ignore_ascii_case("wait"))
    })
}

/// A repeated header is the list of its values (RFC 9110, 5.3).
fn joined<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Cow<'h, [u8]>> {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let first = values.next()?;
    let mut all = Cow::Borrowed(first);
    for value in values {
        let list = all.to_mut();
        list.extend_from_slice(b", ");
        list.extend_from_slice(value);
    }
    Some(all)
}

/// Where a client would put the key, in words.
pub fn place_of_key(route: &Route) -> String {
    match &route.key_from {
        KeyFrom::Header(name) if *name == IDEMPOTENCY_KEY => "the Idempotency-Key header".into(),
        KeyFrom::Header(name) => format!("the {name} header"),
        KeyFrom::Body(pointer) => format!("its JSON body, at {}", pointer.as_str()),
        KeyFrom::Digest => "its body".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_of(values: &[&'static str]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, HeaderValue::from_static(value));
        }
        preferred_wait(&headers).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_preferred_wait_is_found_among_other_preferences() {
        assert_eq!(wait_of(&["wait=5"]), Some(5));
        assert_eq!(wait_of(&["respond-async, Wait = 7"]), Some(7));
        assert_eq!(wait_of(&["respond-async", "wait=\"3\""]), Some(3));
        assert_eq!(wait_of(&["wait=0"]), Some(0));
        for none in [&[][..], &["wait"], &["wait=-1"], &["wait=soon"], &["await=5"]] {
            assert_eq!(wait_of(none), None, "{none:?}");
        }
    }

    #[test]
    fn repeated_headers_are_a_list() {
        let mut headers = HeaderMap::new();
        assert_eq!(joined(&headers, &AUTHORIZATION), None);
        headers.append(AUTHORIZATION, HeaderValue::from_static("a"));
        assert_eq!(joined(&headers, &AUTHORIZATION).as_deref(), Some(&b"a"[..]));
        headers.append(AUTHORIZATION, HeaderValue::from_static("b"));
        assert_eq!(joined(&headers, &AUTHORIZATION).as_deref(), Some(&b"a, b"[..]));
    }
}
