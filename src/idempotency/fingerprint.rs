//! The fingerprint of a request: SHA-256 of what makes two requests "the same request".
//!
//! It decides between a replay and `key-reused`, so two different requests must never be hashed
//! from the same bytes: every part goes in with its label and its length, and a part that is
//! absent differs from an empty one.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::canonical_json::{self, CanonicalError, Selection};

/// Changes with the encoding below: a stored fingerprint must never match by accident of layout.
const REQUEST: &[u8] = b"oncegate request 1";
const TEXT: &[u8] = b"oncegate text 1";
const VALUE: &[u8] = b"oncegate value 1";

/// Two requests of one identity are the same request when these are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// Writes bytes as lower-case hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BodyRule {
    /// Byte for byte.
    #[default]
    Raw,
    /// The canonical JSON of the selected parts. A body that is not acceptable JSON is an error;
    /// no body at all is not, and differs from every JSON value.
    Json(Selection),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueryRule {
    #[default]
    Counts,
    Ignored,
}

/// What counts besides method and path. By default: the body byte for byte, and the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FingerprintRules {
    body: BodyRule,
    query: QueryRule,
    headers: Box<[Box<str>]>,
}

/// What a request is made of, but for its headers, which are looked up one by one.
#[derive(Clone, Copy)]
pub struct RequestParts<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Without the question mark. `/a` has none, `/a?` has an empty one.
    pub query: Option<&'a str>,
    pub body: &'a [u8],
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintError {
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    #[error("the value cannot be written as JSON: {0}")]
    NotSerializable(serde_json::Error),
}

/// A hasher that takes labelled, length-prefixed parts, and the body without copying it.
struct Parts(Sha256);

impl Fingerprint {
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// For callers that name their payload themselves, such as the decision API's.
    pub fn of_text(text: &str) -> Self {
        Parts::new(TEXT).with(b"text", text.as_bytes()).end()
    }

    /// Of the canonical JSON of a value: the order of struct fields and map entries does not count.
    /// Integers beyond 2^53 are refused; serde_json writes a NaN or an infinity as `null`.
    pub fn of_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, FingerprintError> {
        let json = serde_json::to_vec(value).map_err(FingerprintError::NotSerializable)?;
        let canonical = canonical_json::canonicalize(&json, &Selection::default())?;
        Ok(Parts::new(VALUE).with(b"value", &canonical).end())
    }
}

impl FingerprintRules {
    /// Header names are compared without case; their order here, and repeats, do not count.
    pub fn new<S: AsRef<str>>(
        body: BodyRule,
        query: QueryRule,
        headers: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut headers: Vec<Box<str>> =
            headers.into_iter().map(|name| name.as_ref().to_ascii_lowercase().into()).collect();
        headers.sort();
        headers.dedup();
        Self { body, query, headers: headers.into() }
    }

    /// `header_values` is asked with a lower-case name and gives that header's values in order.
    pub fn fingerprint<'a, I>(
        &self,
        request: &RequestParts<'a>,
        header_values: impl Fn(&str) -> I,
    ) -> Result<Fingerprint, FingerprintError>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let mut parts = Parts::new(REQUEST)
            .with(b"method", request.method.as_bytes())
            .with(b"path", request.path.as_bytes());
        if let (QueryRule::Counts, Some(query)) = (self.query, request.query) {
            parts = parts.with(b"query", query.as_bytes());
        }
        for name in &self.headers {
            // The name goes in even when there is no value: it closes the list before it.
            parts = parts.with(b"header", name.as_bytes());
            for value in header_values(name) {
                parts = parts.with(b"value", value);
            }
        }
        Ok(match &self.body {
            BodyRule::Raw => parts.with(b"body", request.body),
            BodyRule::Json(_) if request.body.is_empty() => parts.with(b"no json", b""),
            BodyRule::Json(selection) => {
                parts.with(b"json", &canonical_json::canonicalize(request.body, selection)?)
            }
        }
        .end())
    }
}

impl Parts {
    fn new(domain: &[u8]) -> Self {
        Self(Sha256::new()).with(b"oncegate", domain)
    }

    fn with(mut self, label: &[u8], bytes: &[u8]) -> Self {
        self.0.update((label.len() as u64).to_le_bytes());
        self.0.update(label);
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    fn end(self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }
}

/// All 64 digits, as the probe and the `digest` key see it.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({}…)", Hex(&self.0[..4]))
    }
}

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in self.0 {
            f.write_char(DIGITS[usize::from(byte >> 4)] as char)?;
            f.write_char(DIGITS[usize::from(byte & 15)] as char)?;
        }
        Ok(())
    }
}

impl fmt::Debug for RequestParts<'_> {
    /// Path, query and body may hold what no log should.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestParts")
            .field("method", &self.method)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::super::canonical_json::Pointer;
    use super::super::canonical_json::tests::{document, leaves};
    use super::*;

    type Headers = [(&'static str, &'static [u8])];

    const REQUEST: RequestParts<'static> =
        RequestParts { method: "POST", path: "/v1/payments", query: None, body: b"{\"amount\":1}" };

    fn values<'h>(headers: &'h Headers) -> impl Fn(&str) -> Vec<&'static [u8]> + 'h {
        |name| headers.iter().filter(|(n, _)| *n == name).map(|(_, value)| *value).collect()
    }

    fn print(rules: &FingerprintRules, request: &RequestParts<'_>) -> Fingerprint {
        rules.fingerprint(request, |_| []).unwrap()
    }

    fn json_rules(selection: Selection) -> FingerprintRules {
        FingerprintRules::new(BodyRule::Json(selection), QueryRule::Counts, [""; 0])
    }

    #[test]
    fn by_default_method_path_query_and_raw_body_count() {
        let rules = FingerprintRules::default();
        let first = print(&rules, &REQUEST);
        assert_eq!(first, print(&rules, &REQUEST));
        for other in [
            RequestParts { method: "PATCH", ..REQUEST },
            RequestParts { method: "post", ..REQUEST },
            RequestParts { path: "/v1/payments/", ..REQUEST },
            RequestParts { query: Some("a=1"), ..REQUEST },
            RequestParts { body: b"{\"amount\": 1}", ..REQUEST },
            RequestParts { body: b"", ..REQUEST },
        ] {
            assert_ne!(first, print(&rules, &other), "{other:?}");
        }
    }

    #[test]
    fn the_encoding_is_stable_because_fingerprints_are_stored() {
        let hex = print(&FingerprintRules::default(), &REQUEST).to_string();
        assert_eq!(hex, "fd39047da784a7cba372f256e45fa5a845cb6212455803372984b026cd1cfeb6");
        assert_eq!(
            Fingerprint::of_text("order-7").to_string(),
            "296e72794772e18d37a378a6361a0a6323310f7b784fa340fb6b557a36d4e716"
        );
    }

    #[test]
    fn an_absent_query_differs_from_an_empty_one_unless_the_query_is_ignored() {
        let empty = RequestParts { query: Some(""), ..REQUEST };
        let rules = FingerprintRules::default();
        assert_ne!(print(&rules, &REQUEST), print(&rules, &empty));
        let rules = FingerprintRules::new(BodyRule::Raw, QueryRule::Ignored, [""; 0]);
        let some = RequestParts { query: Some("a=1"), ..REQUEST };
        assert_eq!(print(&rules, &REQUEST), print(&rules, &some));
    }

    #[test]
    fn only_chosen_headers_count_with_all_values_in_order() {
        let rules = FingerprintRules::new(BodyRule::Raw, QueryRule::Counts, ["X-A", "x-b"]);
        let of = |headers: &Headers| rules.fingerprint(&REQUEST, values(headers)).unwrap();
        let different: [&Headers; 8] = [
            &[],
            &[("x-a", b"")],
            &[("x-a", b"1")],
            &[("x-b", b"1")],
            &[("x-a", b"1"), ("x-a", b"2")],
            &[("x-a", b"2"), ("x-a", b"1")],
            &[("x-a", b"1, 2")],
            &[("x-a", b"1"), ("x-b", b"2")],
        ];
        for (i, one) in different.iter().enumerate() {
            for other in &different[..i] {
                assert_ne!(of(one), of(other), "{one:?} {other:?}");
            }
        }
        assert_eq!(of(&[("x-a", b"1")]), of(&[("x-c", b"9"), ("x-a", b"1")]));
    }

    #[test]
    fn the_order_and_case_in_which_headers_are_configured_do_not_count() {
        let one = FingerprintRules::new(BodyRule::Raw, QueryRule::Counts, ["B", "a", "b"]);
        let other = FingerprintRules::new(BodyRule::Raw, QueryRule::Counts, ["A", "b"]);
        assert_eq!(one, other);
    }

    #[test]
    fn under_the_json_rule_only_the_document_counts() {
        let rules = json_rules(Selection::default());
        let same = RequestParts { body: b" { \"amount\" : 1.0 } ", ..REQUEST };
        let other = RequestParts { body: b"{\"amount\":2}", ..REQUEST };
        assert_eq!(print(&rules, &REQUEST), print(&rules, &same));
        assert_ne!(print(&rules, &REQUEST), print(&rules, &other));
        let raw = FingerprintRules::default();
        assert_ne!(print(&rules, &REQUEST), print(&raw, &REQUEST));
    }

    #[test]
    fn under_the_json_rule_a_body_that_is_not_json_is_an_error_and_no_body_is_not() {
        let rules = json_rules(Selection::default());
        for body in [&b"amount=1"[..], b" ", b"{\"a\":1,\"a\":1}", b"[9007199254740993]"] {
            let request = RequestParts { body, ..REQUEST };
            let result = rules.fingerprint(&request, |_| []);
            assert!(matches!(result, Err(FingerprintError::Canonical(_))));
        }
        let ignoring_all =
            json_rules(Selection { fields: None, ignore: vec![Pointer::parse("").unwrap()] });
        let none = RequestParts { body: b"", ..REQUEST };
        assert_ne!(print(&ignoring_all, &none), print(&ignoring_all, &REQUEST));
    }

    #[test]
    fn a_serializable_value_is_known_by_its_content() {
        let one = Fingerprint::of_value(&json!({"a": 1, "b": [null]})).unwrap();
        let same = Fingerprint::of_value(&json!({"b": [null], "a": 1.0})).unwrap();
        let other = Fingerprint::of_value(&json!({"a": 1, "b": []})).unwrap();
        assert_eq!(one, same);
        assert_ne!(one, other);
        let too_wide = Fingerprint::of_value(&u64::MAX);
        assert!(matches!(too_wide, Err(FingerprintError::Canonical(_))));
        let no_json = Fingerprint::of_value(&BTreeMap::from([((1, 2), 3)]));
        assert!(matches!(no_json, Err(FingerprintError::NotSerializable(_))));
    }

    #[test]
    fn a_text_a_value_and_a_request_never_share_a_fingerprint() {
        assert_ne!(Fingerprint::of_text("1"), Fingerprint::of_value(&1).unwrap());
        assert_ne!(Fingerprint::of_text("a"), Fingerprint::of_text("A"));
    }

    #[test]
    fn debug_shows_a_prefix_only_and_display_the_whole() {
        let fingerprint = Fingerprint::from_bytes([0xab; 32]);
        assert_eq!(format!("{fingerprint:?}"), "Fingerprint(abababab…)");
        assert_eq!(fingerprint.to_string(), "ab".repeat(32));
        assert_eq!(Fingerprint::from_bytes(*fingerprint.as_bytes()), fingerprint);
        assert!(!format!("{REQUEST:?}").contains("payments"));
    }

    /// Method, path, query and body cut out of one text, each at any place.
    fn cut() -> impl Strategy<Value = (String, String, Option<String>, Vec<u8>)> {
        let part = || "[a-b/?]{0,2}";
        (part(), part(), prop::option::of(part()), part())
            .prop_map(|(method, path, query, body)| (method, path, query, body.into_bytes()))
    }

    proptest! {
        #[test]
        fn no_part_can_be_shifted_to_its_neighbour(one in cut(), other in cut()) {
            let rules = FingerprintRules::default();
            let of = |(method, path, query, body): &(String, String, Option<String>, Vec<u8>)| {
                print(&rules, &RequestParts { method, path, query: query.as_deref(), body })
            };
            prop_assert_eq!(of(&one) == of(&other), one == other);
        }

        #[test]
        fn a_boundary_between_parts_counts(text in "[a-z]{2,12}", at in 1_usize..11) {
            let (path, rest) = text.split_at(at.min(text.len() - 1));
            let rules = FingerprintRules::new(BodyRule::Raw, QueryRule::Counts, ["h"]);
            let of = |path, query, header: Option<&'static [u8]>, body| {
                let request = RequestParts { method: "POST", path, query, body };
                rules.fingerprint(&request, |_| header).unwrap()
            };
            let all = [
                of(&text, None, None, b""),
                of(path, Some(rest), None, b""),
                of(path, None, None, rest.as_bytes()),
                of("", Some(&text), None, b""),
                of("", None, None, text.as_bytes()),
                of(&text, Some(""), None, b""),
                of(&text, None, Some(b""), b""),
            ];
            for (i, one) in all.iter().enumerate() {
                prop_assert!(!all[..i].contains(one), "{i}");
            }
        }

        #[test]
        fn any_changed_leaf_changes_the_fingerprint(
            document in document(), choice in any::<prop::sample::Index>(),
        ) {
            let place = choice.get(&leaves(&document)).clone();
            let mut changed = document.clone();
            let leaf = changed.pointer_mut(&place).unwrap();
            *leaf = match &*leaf {
                Json::Null => json!(false),
                Json::Bool(value) => json!(!value),
                Json::Number(n) => json!(if n.as_f64() == Some(1.0) { 2 } else { 1 }),
                Json::String(text) => json!(format!("{text} ")),
                Json::Array(_) => json!({}),
                Json::Object(_) => json!([]),
            };
            let rules = json_rules(Selection::default());
            let of = |document: &Json| {
                print(&rules, &RequestParts { body: document.to_string().as_bytes(), ..REQUEST })
            };
            prop_assert_ne!(of(&document), of(&changed));
            prop_assert_ne!(
                Fingerprint::of_value(&document).unwrap(),
                Fingerprint::of_value(&changed).unwrap()
            );
        }
    }
}
