//! What `canonical_json` promises.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

fn canonical(body: &str) -> String {
    String::from_utf8(canonicalize(body.as_bytes(), &Selection::default()).unwrap()).unwrap()
}

fn refusal(body: &str) -> CanonicalError {
    canonicalize(body.as_bytes(), &Selection::default()).unwrap_err()
}

fn pointers(texts: &[&str]) -> Vec<Pointer> {
    texts.iter().map(|text| Pointer::parse(text).unwrap()).collect()
}

fn without(ignore: &[&str], body: &str) -> String {
    let selection = Selection { fields: None, ignore: pointers(ignore) };
    String::from_utf8(canonicalize(body.as_bytes(), &selection).unwrap()).unwrap()
}

fn only(fields: &[&str], body: &str) -> String {
    let selection = Selection { fields: Some(pointers(fields)), ignore: vec![] };
    String::from_utf8(canonicalize(body.as_bytes(), &selection).unwrap()).unwrap()
}

/// Any document that has a canonical form.
pub(crate) fn document() -> impl Strategy<Value = Json> {
    let number =
        any::<f64>().prop_filter("exact", |n| n.is_finite() && (n.abs() < 9e15 || n.abs() >= 1e21));
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Json::from),
        number.prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Every pointer to a value that holds no others.
pub(crate) fn leaves(document: &Json) -> Vec<String> {
    let below = |name: &str, value: &Json| {
        let name = name.replace('~', "~0").replace('/', "~1");
        leaves(value).into_iter().map(move |rest| format!("/{name}{rest}")).collect::<Vec<_>>()
    };
    match document {
        Json::Array(items) if !items.is_empty() => {
            items.iter().enumerate().flat_map(|(i, v)| below(&i.to_string(), v)).collect()
        }
        Json::Object(members) if !members.is_empty() => {
            members.iter().flat_map(|(name, v)| below(name, v)).collect()
        }
        _ => vec![String::new()],
    }
}

/// Another spelling of the same document: members backwards, blanks, needless escapes.
fn respell(value: &Json, out: &mut String) {
    let spell_text = |text: &str, out: &mut String| {
        out.push('"');
        for unit in text.encode_utf16() {
            out.push_str(&format!("\\u{unit:04X}"));
        }
        out.push_str("\" ");
    };
    match value {
        Json::Array(items) => {
            out.push_str("[ ");
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "\t,\r\n" });
                respell(item, out);
            }
            out.push_str("\n]");
        }
        Json::Object(members) => {
            out.push_str(" { ");
            for (i, (name, member)) in members.iter().rev().enumerate() {
                out.push_str(if i == 0 { "" } else { " ,\n" });
                spell_text(name, out);
                out.push_str(" : ");
                respell(member, out);
            }
            out.push('}');
        }
        Json::String(text) => spell_text(text, out),
        Json::Number(n) if n.as_i64().is_some_and(|n| n.unsigned_abs() < 1 << 53) => {
            out.push_str(&format!("{n}.000e0"));
        }
        other => out.push_str(&other.to_string()),
    }
}

#[test]
fn the_sample_of_rfc_8785_comes_out_as_printed_there() {
    let body = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let expected = concat!(
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
        r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
    assert_eq!(canonical(body), expected);
}

#[test]
fn members_are_sorted_by_utf_16_code_units_as_in_the_sample_of_rfc_8785() {
    let body = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
    let expected = "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
    assert_eq!(canonical(body), expected);
}

#[test]
fn numbers_are_written_as_in_appendix_b_of_rfc_8785() {
    for (bits, expected) in [
        (0x0000_0000_0000_0000_u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let mut out = Vec::new();
        Value::Number(f64::from_bits(bits)).write(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{bits:016x}");
    }
}

#[test]
fn spellings_of_one_number_come_out_alike() {
    assert_eq!(canonical("[1, 1.0, 10e-1, 1E0, 0.1e+1]"), "[1,1,1,1,1]");
    assert_eq!(canonical("[0, -0, -0.0, 0e9]"), "[0,0,0,0]");
    assert_eq!(canonical("[1e21, 1000e18]"), "[1e+21,1e+21]");
}

#[test]
fn a_repeated_member_is_refused_at_any_depth_and_however_it_is_spelled() {
    for body in
        [r#"{"a":1,"a":1}"#, r#"{"a":1,"b":2,"\u0061":3}"#, r#"[[{"x":{"a":1,"b":{},"a":2}}]]"#]
    {
        assert!(matches!(refusal(body), CanonicalError::RepeatedMember), "{body}");
    }
    assert_eq!(canonical(r#"{"a":{"a":1},"A":2}"#), r#"{"A":2,"a":{"a":1}}"#);
}

#[test]
fn a_repeated_member_is_refused_even_where_it_does_not_count() {
    let body = br#"{"amount":1,"meta":{"a":1,"a":2}}"#;
    for selection in [
        Selection { fields: None, ignore: pointers(&["/meta"]) },
        Selection { fields: Some(pointers(&["/amount"])), ignore: vec![] },
    ] {
        let result = canonicalize(body, &selection);
        assert!(matches!(result, Err(CanonicalError::RepeatedMember)), "{selection:?}");
    }
}

#[test]
fn integers_beyond_2_to_the_53rd_are_refused_however_they_are_written() {
    for number in [
        "9007199254740993",
        "-9007199254740993",
        "18446744073709551615",
        "18446744073709551616",
        "1000000000000000000000",
        "-100000000000000000000000000000",
        "9007199254740993.0",
        "9007199254740992.5",
        "1e17",
        "-1.5e20",
    ] {
        let body = format!(r#"{{"a":["-\"1",{number}]}}"#);
        assert!(matches!(refusal(&body), CanonicalError::InexactInteger), "{number}");
    }
}

#[test]
fn integers_up_to_2_to_the_53rd_and_digits_in_strings_are_welcome() {
    let body = r#"[9007199254740992,-9007199254740992,"9007199254740993","\\",1]"#;
    assert_eq!(canonical(body), body);
    assert_eq!(
        canonical(r#"{"9007199254740993\"":"\"1e17"}"#),
        r#"{"9007199254740993\"":"\"1e17"}"#
    );
}

#[test]
fn what_is_not_acceptable_json_is_refused() {
    for body in [
        "",
        " ",
        "nul",
        "{",
        "[1,]",
        "{'a':1}",
        "{\"a\":1,}",
        "01",
        "+1",
        ".5",
        "1.",
        "NaN",
        "-",
        "1 2",
        "{} x",
        "\u{feff}{}",
        "// c\n1",
        "\"\t\"",
        "\"\\x\"",
        "1e400",
        "-1e400",
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\u0041""#,
        r#"{"\ud83d":1}"#,
    ] {
        assert!(matches!(refusal(body), CanonicalError::Syntax(_)), "{body}");
    }
    assert!(canonicalize(b"\"\xff\"", &Selection::default()).is_err());
    assert!(canonicalize(b"\"\xed\xa0\x80\"", &Selection::default()).is_err());
}

#[test]
fn a_document_nests_127_levels_and_no_more() {
    let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(canonical(&nested(127)), nested(127));
    assert!(matches!(refusal(&nested(128)), CanonicalError::Syntax(_)));
    assert!(matches!(refusal(&nested(1_000_000)), CanonicalError::Syntax(_)));
}

#[test]
fn no_refusal_repeats_the_body() {
    for body in [r#"{"s3cret":1,"s3cret":2}"#, r#"{"s3cret":"s3cret"#, "\"s3cret\" s3cret"] {
        assert!(!refusal(body).to_string().contains("s3cret"));
    }
}

#[test]
fn an_ignored_place_does_not_count_and_its_neighbours_do() {
    let body = r#"{"sent_at":1,"order":{"id":7,"trace":[1]}}"#;
    assert_eq!(without(&["/sent_at", "/order/trace", "/nope/x"], body), r#"{"order":{"id":7}}"#);
    assert_eq!(without(&[""], body), "");
}

#[test]
fn ignored_array_elements_close_their_gap_but_do_not_renumber_the_others() {
    assert_eq!(without(&["/0", "/1", "/3/x", "/-", "/01"], r#"[1,2,3,{"x":1}]"#), "[3,{}]");
    let selection = Selection { fields: Some(pointers(&["/0", "/1"])), ignore: pointers(&["/0"]) };
    assert_eq!(canonicalize(b"[1,2]", &selection).unwrap(), br#"{"/1":2}"#);
}

#[test]
fn with_fields_only_these_count_and_absent_differs_from_null() {
    let fields = ["/b", "/a", "/a"];
    assert_eq!(only(&fields, r#"{"b":[1.0],"a":null,"c":3}"#), r#"{"/a":null,"/b":[1]}"#);
    assert_eq!(only(&fields, r#"{"b":[1],"c":4}"#), r#"{"/b":[1]}"#);
    assert_eq!(only(&["/x~1y/0"], r#"{"x/y":["z"]}"#), r#"{"/x~1y/0":"z"}"#);
    assert_eq!(only(&[""], "3"), r#"{"":3}"#);
    assert_eq!(only(&[], "3"), "{}");
}

#[test]
fn a_value_cannot_move_from_one_field_to_another() {
    assert_ne!(only(&["/a", "/b"], r#"{"a":1}"#), only(&["/a", "/b"], r#"{"b":1}"#));
}

#[test]
fn text_at_finds_strings_and_exact_integers_and_refuses_what_is_ambiguous() {
    let at = |text: &str, body: &str| text_at(body.as_bytes(), &Pointer::parse(text).unwrap());
    let text = |text: &str| TextAt::Text(text.to_owned());
    assert_eq!(at("/a/0", r#"{"a":["k\n1"]}"#).unwrap(), text("k\n1"));
    for (body, found) in [
        (r#"{"a":1}"#, text("1")),
        (r#"{"a":-42,"b":1e17}"#, text("-42")),
        (r#"{"a":-0}"#, text("0")),
        (r#"{"a":1e3}"#, text("1000")),
        (r#"{"a":7.0}"#, text("7")),
        (r#"{"a":9007199254740992}"#, text("9007199254740992")),
        (r#"{"a":-9007199254740992}"#, text("-9007199254740992")),
        (r#"{"b":1}"#, TextAt::Absent),
        (r#"{"a":null}"#, TextAt::Absent),
        (r#"{"a":9007199254740993}"#, TextAt::NoText),
        (r#"{"a":9007199254740992.0}"#, TextAt::NoText),
        (r#"{"a":18446744073709551615}"#, TextAt::NoText),
        (r#"{"a":99999999999999999999}"#, TextAt::NoText),
        (r#"{"a":1.5}"#, TextAt::NoText),
        (r#"{"a":1e21}"#, TextAt::NoText),
        (r#"{"a":true}"#, TextAt::NoText),
        (r#"{"a":{}}"#, TextAt::NoText),
        (r#"{"a":["1"]}"#, TextAt::NoText),
    ] {
        assert_eq!(at("/a", body).unwrap(), found, "{body}");
    }
    assert!(at("/a", r#"{"a":"1","a":"2"}"#).is_err());
}

proptest! {
    #[test]
    fn canonicalizing_twice_is_canonicalizing_once(document in document()) {
        let once = canonical(&document.to_string());
        prop_assert_eq!(canonical(&once), once);
    }

    #[test]
    fn order_blanks_escapes_and_number_spellings_do_not_count(document in document()) {
        let mut respelled = String::new();
        respell(&document, &mut respelled);
        prop_assert_eq!(canonical(&respelled), canonical(&document.to_string()));
    }

    #[test]
    fn the_canonical_form_is_the_same_document(document in document()) {
        let read: Json = serde_json::from_str(&canonical(&document.to_string())).unwrap();
        // Doubles on both sides: the canonical form does not tell 1.0 from 1.
        prop_assert_eq!(as_doubles(read), as_doubles(document));
    }

    #[test]
    fn any_bytes_are_answered_without_a_panic(body in any::<Vec<u8>>()) {
        let accepted = canonicalize(&body, &Selection::default()).is_ok();
        prop_assert!(!accepted || serde_json::from_slice::<Json>(&body).is_ok());
    }

    #[test]
    fn an_ignored_leaf_may_have_any_value(
        document in document(), other in document(), choice in any::<prop::sample::Index>(),
    ) {
        let place = choice.get(&leaves(&document)).clone();
        let mut changed = document.clone();
        *changed.pointer_mut(&place).unwrap() = other;
        let place = [place.as_str()];
        prop_assert_eq!(
            without(&place, &document.to_string()),
            without(&place, &changed.to_string())
        );
    }
}

fn as_doubles(document: Json) -> Json {
    match document {
        Json::Number(n) => json!(n.as_f64().unwrap() + 0.0),
        Json::Array(items) => items.into_iter().map(as_doubles).collect(),
        Json::Object(members) => {
            members.into_iter().map(|(name, value)| (name, as_doubles(value))).collect()
        }
        other => other,
    }
}
