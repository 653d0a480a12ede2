//! Whose key it is: the tenant part of an identity, and the credential that a request came with.
//!
//! Two callers with the same key must not meet, so nothing that is read here may make two
//! different tenants one: what does not fit is replaced by its digest, never cut or cleaned.
//!
//! ## Why a JWT is read without checking its signature
//! The upstream checks it; the gateway has no keys to do so and admits nobody by it. Whoever forges
//! somebody's issuer and subject lands in that tenant, but a replay there asks for the credential
//! of the first request and ends in `credential-mismatch`: no stored answer leaves. A forged first
//! request is forwarded, refused by the upstream (401 or 403, transient) and its record released;
//! at worst the forger takes a key that it could guess away from its owner.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

use super::fingerprint::Hex;

/// The durable tier's column holds this many characters.
const TENANT_MAX_LENGTH: usize = 255;
const DIGEST_PREFIX: &str = "sha256:";

/// Whose key it is, compared byte for byte; empty when there is no tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Arc<str>);

/// SHA-256 of an `Authorization` value, kept to see whether a replay is asked by the same caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credential([u8; 32]);

/// Deserializing refuses repeated members: the upstream may read another one than we do.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// `null` is not the same as absent, and is no issuer.
    #[serde(default, deserialize_with = "present")]
    iss: Option<String>,
}

impl Tenant {
    pub fn none() -> Self {
        Self(Arc::default())
    }

    /// From a header that a trusted layer set. Kept as it is where it fits.
    pub fn from_header(value: &[u8]) -> Self {
        match str::from_utf8(value) {
            Ok(text) => Self::from_text(text),
            Err(_) => Self::digest_of(value),
        }
    }

    /// From text that a caller sent, such as the decision API's `tenant`.
    pub fn from_text(text: &str) -> Self {
        let too_long = text.chars().count() > TENANT_MAX_LENGTH;
        // A digest that is sent is not taken for one that was made here.
        if too_long || text.chars().any(char::is_control) || is_digest(text) {
            Self::digest_of(text.as_bytes())
        } else {
            Self(text.into())
        }
    }

    /// From what [`Tenant::as_str`] gave when the record was stored, or an operator who names one.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// From an `Authorization` value: issuer and subject of a bearer JWT, so that a renewed token
    /// is the same tenant, else a digest of the value, else no tenant.
    pub fn from_credential(authorization: Option<&[u8]>) -> Self {
        let Some(value) = authorization.map(<[u8]>::trim_ascii).filter(|value| !value.is_empty())
        else {
            return Self::none();
        };
        match bearer_claims(value) {
            // The issuer's length keeps ("a", "b:c") apart from ("a:b", "c").
            Some(Claims { iss: Some(iss), sub }) => {
                Self::from_text(&format!("jwt:{}:{iss}:{sub}", iss.len()))
            }
            Some(Claims { iss: None, sub }) => Self::from_text(&format!("jwt:-:{sub}")),
            None => Self(format!("cred:{}", Hex(&Sha256::digest(value))).into()),
        }
    }

    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn digest_of(value: &[u8]) -> Self {
        Self(format!("{DIGEST_PREFIX}{}", Hex(&Sha256::digest(value))).into())
    }
}

impl Credential {
    pub fn of(authorization: &[u8]) -> Self {
        Self(Sha256::digest(authorization).into())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tenant").field(&self.as_str()).finish()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(hidden)")
    }
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix(DIGEST_PREFIX)
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Nothing when the value is anything but a bearer JWT that names its subject.
fn bearer_claims(authorization: &[u8]) -> Option<Claims> {
    let (scheme, token) = str::from_utf8(authorization).ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut parts = token.trim_start_matches(' ').split('.');
    let [header, payload, signature] = [parts.next()?, parts.next()?, parts.next()?];
    if parts.next().is_some() || header.is_empty() {
        return None;
    }
    for part in [header, signature] {
        URL_SAFE_NO_PAD.decode(part).ok()?;
    }
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    // A derived struct would also be read from an array.
    if payload.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice(&payload).ok().filter(|claims: &Claims| !claims.sub.is_empty())
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn bearer(payload: &str) -> Vec<u8> {
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256"}"#);
        format!("Bearer {header}.{}.c2ln", URL_SAFE_NO_PAD.encode(payload)).into_bytes()
    }

    fn of(authorization: &[u8]) -> String {
        Tenant::from_credential(Some(authorization)).as_str().to_owned()
    }

    fn claims(payload: &str) -> String {
        of(&bearer(payload))
    }

    #[test]
    fn a_tenant_that_fits_is_kept_as_it_is() {
        for text in ["acme", "Acme ", " acme", "é☃", "sha256:abc", &"é".repeat(255)] {
            assert_eq!(Tenant::from_header(text.as_bytes()).as_str(), text);
        }
    }

    #[test]
    fn a_tenant_that_does_not_fit_becomes_its_digest() {
        let long = "a".repeat(256);
        for value in [long.as_bytes(), b"a\0b", b"a\tb", b"\x7f", b"\xc2\x80", b"\xff"] {
            let tenant = Tenant::from_header(value);
            assert_eq!(tenant.as_str(), format!("sha256:{}", Hex(&Sha256::digest(value))));
        }
    }

    #[test]
    fn a_digest_that_is_sent_is_not_taken_for_one_that_was_made_here() {
        let made = Tenant::from_header(b"\xff");
        assert_ne!(Tenant::from_header(made.as_str().as_bytes()), made);
        assert_ne!(Tenant::from_text(made.as_str()), made);
        assert_eq!(Tenant::from_stored(made.as_str()), made);
    }

    #[test]
    fn without_a_credential_there_is_no_tenant() {
        for authorization in [None, Some(&b""[..]), Some(b"  ")] {
            assert!(Tenant::from_credential(authorization).is_none());
        }
        assert_eq!(Tenant::none(), Tenant::from_header(b""));
        assert_eq!(Tenant::none().as_str(), "");
    }

    #[test]
    fn issuer_and_subject_of_a_bearer_jwt_are_the_tenant() {
        assert_eq!(claims(r#"{"iss":"https://id","sub":"u1","exp":1}"#), "jwt:10:https://id:u1");
        assert_eq!(claims(r#"{"sub":"u1","aud":["x"]}"#), "jwt:-:u1");
        assert_ne!(claims(r#"{"sub":"u1","iss":""}"#), claims(r#"{"sub":"u1"}"#));
    }

    #[test]
    fn a_renewed_token_and_another_spelling_of_the_scheme_are_the_same_tenant() {
        assert_eq!(claims(r#"{"sub":"u1","exp":1}"#), claims(r#"{"exp":2,"sub":"u1"}"#));
        let value = String::from_utf8(bearer(r#"{"sub":"u1"}"#)).unwrap();
        assert_eq!(of(value.replace("Bearer ", "bEARER  ").as_bytes()), "jwt:-:u1");
    }

    #[test]
    fn issuer_and_subject_cannot_be_shifted_into_one_another() {
        assert_ne!(claims(r#"{"iss":"a","sub":"b:c"}"#), claims(r#"{"iss":"a:b","sub":"c"}"#));
        assert_ne!(claims(r#"{"iss":"","sub":"u"}"#), claims(r#"{"sub":":u"}"#));
    }

    #[test]
    fn any_other_credential_is_known_by_its_digest() {
        let jwt = String::from_utf8(bearer(r#"{"sub":"u1"}"#)).unwrap();
        let opaque = [
            "Basic dTpw".to_owned(),
            "Bearer opaque".to_owned(),
            "Bearer a.b".to_owned(),
            "Bearer".to_owned(),
            jwt.replace("Bearer", "DPoP"),
            format!("{jwt}.x"),
            format!("{jwt}="),
            jwt.replacen("Bearer ", "Bearer !", 1),
            format!("Bearer .{}", jwt.split_once('.').unwrap().1),
        ];
        for authorization in &opaque {
            let tenant = of(authorization.as_bytes());
            let digest = Sha256::digest(authorization.as_bytes());
            assert_eq!(tenant, format!("cred:{}", Hex(&digest)), "{authorization}");
        }
        assert!(of(b"Bearer \xff").starts_with("cred:"));
    }

    #[test]
    fn a_payload_that_two_readers_could_read_differently_is_opaque() {
        for payload in [
            r#"{"sub":"u1","sub":"u2"}"#,
            r#"{"sub":"u1","iss":"a","iss":"a"}"#,
            r#"{"sub":"u1","\u0073ub":"u2"}"#,
            r#"{"sub":1}"#,
            r#"{"sub":null}"#,
            r#"{"sub":""}"#,
            r#"{"sub":"u1","iss":null}"#,
            r#"{"sub":"u1","iss":["a"]}"#,
            r#"{"iss":"a"}"#,
            r#"["u1","a"]"#,
            r#" ["u1","a"]"#,
            r#"{"sub":"u1"} x"#,
            "u1",
        ] {
            assert!(claims(payload).starts_with("cred:"), "{payload}");
        }
    }

    #[test]
    fn a_subject_that_does_not_fit_becomes_a_digest() {
        for subject in ["x".repeat(300), "a\nb".to_owned()] {
            assert!(claims(&json!({ "sub": subject }).to_string()).starts_with("sha256:"));
        }
    }

    #[test]
    fn a_credential_is_the_digest_of_the_raw_value_and_stays_hidden() {
        let credential = Credential::of(b"Bearer s3cret");
        assert_eq!(credential, Credential::from_bytes(Sha256::digest(b"Bearer s3cret").into()));
        assert_ne!(credential, Credential::of(b"bearer s3cret"));
        assert_eq!(credential, Credential::from_bytes(*credential.as_bytes()));
        assert_eq!(format!("{credential:?}"), "Credential(hidden)");
    }

    /// Values close to where two tenants could be taken for one.
    fn header_value() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(prop::sample::select(&b"a:\0\xff"[..]), 0..3),
            (254_usize..258, "[ab]?").prop_map(|(n, end)| ("a".repeat(n) + &end).into_bytes()),
            "[ab\u{0}]{1}".prop_map(|text| Tenant::from_text(&text).as_str().into()),
        ]
    }

    proptest! {
        #[test]
        fn two_headers_are_one_tenant_only_when_they_are_equal(
            a in header_value(), b in header_value(),
        ) {
            prop_assert_eq!(Tenant::from_header(&a) == Tenant::from_header(&b), a == b);
        }

        #[test]
        fn two_jwts_are_one_tenant_only_with_equal_issuer_and_subject(
            a in (prop::option::of("[-a:1]{0,2}"), "[-a:1]{1,2}"),
            b in (prop::option::of("[-a:1]{0,2}"), "[-a:1]{1,2}"),
        ) {
            let tenant = |(iss, sub): &(Option<String>, String)| match iss {
                Some(iss) => claims(&json!({"iss": iss, "sub": sub}).to_string()),
                None => claims(&json!({"sub": sub}).to_string()),
            };
            prop_assert_eq!(tenant(&a) == tenant(&b), a == b);
        }

        #[test]
        fn every_tenant_fits_its_column(value in any::<Vec<u8>>()) {
            for tenant in [Tenant::from_header(&value), Tenant::from_credential(Some(&value))] {
                prop_assert!(tenant.as_str().chars().count() <= TENANT_MAX_LENGTH);
                prop_assert!(!tenant.as_str().chars().any(char::is_control));
            }
        }
    }
}
