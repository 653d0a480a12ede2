//! What `key` promises.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn header(raw: &str) -> Result<Key, KeyError> {
    Key::from_header(raw.as_bytes(), &KeyRules::default())
}

fn any_header(raw: &str) -> Result<Key, KeyError> {
    Key::from_header(raw.as_bytes(), &KeyRules::any_text())
}

fn rules(pattern: &str) -> KeyRules {
    KeyRules::new(KEY_MAX_LENGTH, KeyPattern::matching(pattern).unwrap()).unwrap()
}

fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', r"\\").replace('"', r#"\""#))
}

#[test]
fn a_quoted_key_is_the_same_key_as_a_bare_one() {
    assert_eq!(header("abc").unwrap(), header("\"abc\"").unwrap());
    assert_eq!(header("\"abc\"").unwrap().as_str(), "abc");
    assert_eq!(header(r"a\b").unwrap(), header(r#""a\\b""#).unwrap());
    assert_eq!(header(r#""a\"b""#).unwrap().as_str(), "a\"b");
}

#[test]
fn a_quote_inside_a_bare_key_is_a_character_like_others() {
    for bare in ["a\"b", "abc\"", "a\"b\"", "a\"\\b"] {
        assert_eq!(header(bare).unwrap().as_str(), bare);
        assert_eq!(header(bare), header(&quoted(bare)), "{bare}");
    }
    assert_eq!(header("a\", \"b\""), Err(KeyError::NotVisibleAscii { position: 4 }));
}

#[test]
fn case_and_trailing_blanks_make_another_key() {
    let keys = ["\"a\"", "\"A\"", "\"a \"", "\" a\"", "\"a  \"", "\"a a\""];
    let different: HashSet<Key> = keys.iter().map(|raw| any_header(raw).unwrap()).collect();
    assert_eq!(different.len(), keys.len());
    assert_eq!(any_header("\"a \"").unwrap().as_str(), "a ");
}

#[test]
fn blanks_around_the_value_belong_to_the_header_and_not_to_the_key() {
    assert_eq!(header(" \tabc\t ").unwrap(), header("abc").unwrap());
    assert_eq!(header(" \"abc\" ").unwrap(), header("abc").unwrap());
}

#[test]
fn parameters_of_a_quoted_key_are_ignored() {
    for raw in [
        r#""abc";v=1"#,
        r#""abc"; v=1;w"#,
        r#""abc";v="x;\"y";*a-b.c_1=?0"#,
        r#""abc";b=:aGk=:;d=@1659578233;t=a/b;n=-1.5"#,
    ] {
        assert_eq!(header(raw).map(|key| key.as_str().to_owned()), Ok("abc".into()), "{raw}");
    }
}

#[test]
fn what_begins_with_a_quote_is_one_well_formed_string() {
    for raw in [
        "\"",
        "\"abc",
        "\"a\"b",
        "\"a\"\"b\"",
        "\"a\\\"",
        r#""a\b""#,
        r#""a" ;v=1"#,
        r#""a";"#,
        r#""a";V=1"#,
        r#""a";v="#,
        r#""a";v="x"#,
        r#""a";=1"#,
        r#""a", "b""#,
        r#""a";v=1, "b""#,
        r#""a";v=1,"b""#,
        r#""a";v "b""#,
        "\"é\"",
        "\"a\tb\"",
    ] {
        assert_eq!(any_header(raw), Err(KeyError::Malformed), "{raw}");
    }
}

#[test]
fn a_key_has_1_to_255_characters_whatever_the_rules() {
    for raw in ["", "  ", "\"\"", "\"\";v=1"] {
        assert_eq!(any_header(raw), Err(KeyError::Empty), "{raw}");
    }
    assert!(header(&"k".repeat(255)).is_ok());
    assert!(header(&quoted(&"\"".repeat(255))).is_ok());
    let too_long = Err(KeyError::TooLong { max: 255, got: 256 });
    assert_eq!(header(&"k".repeat(256)), too_long);
    assert_eq!(Key::new(&"é".repeat(256), &KeyRules::any_text()), too_long);
    assert!(Key::new(&"é".repeat(255), &KeyRules::any_text()).is_ok());
    let short = KeyRules::new(3, KeyPattern::VisibleAscii).unwrap();
    assert_eq!(Key::new("abcd", &short), Err(KeyError::TooLong { max: 3, got: 4 }));
    for got in [0, 256, usize::MAX] {
        let result = KeyRules::new(got, KeyPattern::AnyText);
        assert!(matches!(result, Err(KeyRulesError::MaxLength { got: g }) if g == got));
    }
}

#[test]
fn a_key_has_no_control_characters_whatever_the_rules() {
    for control in ['\0', '\n', '\r', '\t', '\u{1b}', '\u{7f}', '\u{80}', '\u{9f}'] {
        let text = format!("ab{control}c");
        for rules in [KeyRules::any_text(), rules("(?s).*"), KeyRules::default()] {
            let error = Err(KeyError::ControlCharacter { position: 3 });
            assert_eq!(Key::new(&text, &rules), error, "{control:?}");
        }
    }
}

#[test]
fn by_default_a_key_is_visible_ascii() {
    assert!(header("!#0AZaz_-.~").is_ok());
    for raw in ["ab cd", "\"ab cd\"", "abécd"] {
        assert_eq!(header(raw), Err(KeyError::NotVisibleAscii { position: 3 }), "{raw}");
    }
    let result = Key::from_header(b"ab\xff", &KeyRules::default());
    assert_eq!(result, Err(KeyError::NotUtf8 { position: 3 }));
}

#[test]
fn the_whole_key_must_match_the_pattern() {
    let rules = rules("[a-zA-Z0-9_-]+|x y");
    assert!(Key::new("a-Z_9", &rules).is_ok());
    assert!(Key::from_header(b"\"x y\"", &rules).is_ok());
    for text in ["a.b", ".ab", "ab.", "x y ", "é"] {
        assert_eq!(Key::new(text, &rules), Err(KeyError::PatternMismatch), "{text}");
    }
}

#[test]
fn a_pattern_that_is_no_expression_is_an_error_before_any_key_is_seen() {
    for pattern in ["[", "a)|(b", "(", "*"] {
        let result = KeyPattern::matching(pattern);
        assert!(matches!(result, Err(KeyRulesError::Pattern(_))), "{pattern}");
    }
}

#[test]
fn a_key_that_no_header_carried_keeps_its_quotes() {
    assert_eq!(Key::new("\"abc\"", &KeyRules::any_text()).unwrap().as_str(), "\"abc\"");
}

#[test]
fn a_stored_key_comes_back_as_it_was() {
    let key = Key::new("\"É \" ", &KeyRules::any_text()).unwrap();
    assert_eq!(Key::from_stored(key.as_str()), key);
}

#[test]
fn a_fingerprint_is_a_key_that_any_rules_accept() {
    let key = Key::from_fingerprint(&Fingerprint::from_bytes([0x5a; 32]));
    assert_eq!(key.as_str(), "5a".repeat(32));
    assert_eq!(Key::new(key.as_str(), &KeyRules::default()), Ok(key));
}

#[test]
fn debug_does_not_show_the_key() {
    let shown = format!("{:?}", header("abc").unwrap());
    assert_eq!(shown, "Key(3 characters, sha256 ba7816bf…)");
}

proptest! {
    #[test]
    fn any_visible_key_comes_back_from_quotes_and_bare(text in "[!-~]{1,255}") {
        let key = Key::new(&text, &KeyRules::default()).unwrap();
        prop_assert_eq!(header(&quoted(&text)), Ok(key.clone()));
        if !text.starts_with('"') {
            prop_assert_eq!(header(&text), Ok(key));
        }
    }

    #[test]
    fn two_keys_are_one_only_when_their_bytes_are(a in "[ -~]{1,3}", b in "[ -~]{1,3}") {
        let one = any_header(&quoted(&a)).unwrap();
        let other = any_header(&quoted(&b)).unwrap();
        prop_assert_eq!(one == other, a == b);
        prop_assert_eq!(one.as_str(), a);
    }

    #[test]
    fn any_bytes_are_answered_within_the_limits(raw in any::<Vec<u8>>()) {
        for rules in [KeyRules::default(), KeyRules::any_text()] {
            if let Ok(key) = Key::from_header(&raw, &rules) {
                prop_assert!((1..=KEY_MAX_LENGTH).contains(&key.as_str().chars().count()));
                prop_assert!(!key.as_str().chars().any(char::is_control));
            }
        }
    }

    #[test]
    fn no_error_repeats_the_key(
        key in "(s3cret[^a-z]{1,9}|\"s3cret|s3cret[!-~]{250}|s3cret\u{7}|s3cret\"\")",
    ) {
        if let Err(error) = header(&key) {
            let shown = format!("{error} {error:?}");
            prop_assert!(!shown.contains("s3cret"));
        }
    }
}
