//! What `fingerprint` promises.

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
