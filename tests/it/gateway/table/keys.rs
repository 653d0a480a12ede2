//! Keys that are missing, malformed, or written in two ways.

use super::super::{
    Retry, Site, assert_executed, assert_problem, assert_replayed, fresh_key, on_both_pairs,
    payments,
};

on_both_pairs!(
    without_a_key_a_required_route_refuses,
    a_malformed_key_is_refused,
    a_key_with_control_characters_is_refused,
    a_repeated_key_header_is_refused,
    a_key_may_have_255_characters,
    a_quoted_key_and_a_bare_one_are_the_same,
    a_quote_inside_a_bare_key_is_part_of_it,
    keys_differ_by_the_case_of_a_letter,
);

async fn without_a_key_a_required_route_refuses(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let refused = gateway.ask("POST", "/pay").body("{}").send().await;
    assert_problem(&refused, 400, "key-missing", Retry::No);
    assert_eq!(site.upstream.count(), 0);
}

async fn a_malformed_key_is_refused(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let too_long = "k".repeat(256);
    let keys = [
        "",
        "\"\"",
        "a b",
        "\"a b\"",
        "a\tb",
        "caf\u{e9}",
        "\u{c3}\u{a9}",
        &too_long,
        "\"abc",
        "\"a\"b",
        "\"a\" \"b\"",
        "\"a\", \"b\"",
        "\"a\\b\"",
    ];
    for key in keys {
        let refused = gateway.posting("/pay", key, "{}").send().await;
        assert_eq!(refused.status, 400, "{key:?}");
        assert_problem(&refused, 400, "key-invalid", Retry::No);
    }
    assert_eq!(site.upstream.count(), 0);
}

/// A proxy may refuse such a message before it looks for keys.
async fn a_key_with_control_characters_is_refused(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    for key in ["a\u{1}b", "a\u{7f}b", "a\u{0}b", "a\u{1b}[31m"] {
        let refused = gateway.posting("/pay", key, "{}").send().await;
        assert_eq!(refused.status, 400, "{key:?}: {refused:?}");
    }
    assert_eq!(site.upstream.count(), 0);
}

async fn a_repeated_key_header_is_refused(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    for (one, other) in [("a", "b"), ("a", "a"), ("a", "")] {
        let ask = gateway.ask("POST", "/pay").key(one).header("idempotency-key", other);
        let refused = ask.body("{}").send().await;
        assert_problem(&refused, 400, "key-invalid", Retry::No);
    }
    assert_eq!(site.upstream.count(), 0);
}

async fn a_key_may_have_255_characters(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = format!("{:~<255}", fresh_key());
    let first = gateway.post("/pay", &key, "{}").await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &key, "{}").await, &first);
    // The last character counts.
    assert_executed(&gateway.post("/pay", &format!("{}!", &key[..254]), "{}").await, 201);
    assert_eq!((site.upstream.count_of(&key), site.upstream.count()), (1, 2));
}

async fn a_quoted_key_and_a_bare_one_are_the_same(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    for quoted_first in [true, false] {
        let bare = fresh_key();
        let quoted = format!("\"{bare}\"");
        let (one, other) = if quoted_first { (&quoted, &bare) } else { (&bare, &quoted) };
        let first = gateway.post("/pay", one, "{}").await;
        assert_executed(&first, 201);
        assert_eq!(site.upstream.last().key(), Some(one.as_str()), "it is passed on as it came");
        assert_replayed(&gateway.post("/pay", other, "{}").await, &first);
    }
    assert_eq!(site.upstream.count(), 2);
}

async fn a_quote_inside_a_bare_key_is_part_of_it(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let id = fresh_key();
    let first = gateway.post("/pay", &format!("{id}\"b"), "{}").await;
    assert_executed(&first, 201);
    assert_replayed(&gateway.post("/pay", &format!("\"{id}\\\"b\""), "{}").await, &first);
    assert_executed(&gateway.post("/pay", &format!("{id}b"), "{}").await, 201);
    assert_eq!(site.upstream.count(), 2);
}

async fn keys_differ_by_the_case_of_a_letter(site: Site) {
    let gateway = site.gateway(&payments("")).await;
    let key = fresh_key();
    for variant in [format!("{key}-abc"), format!("{key}-ABC"), format!("{key}-Abc")] {
        assert_executed(&gateway.post("/pay", &variant, "{}").await, 201);
        assert_eq!(site.upstream.count_of(&variant), 1);
    }
    assert_eq!(site.upstream.count(), 3);
}
