//! Lists of records: every filter, in order, page by page, and nothing that has expired.

use std::time::Duration;

use oncegate::idempotency::Settlement;
use oncegate::idempotency::settle::Failure;
use oncegate::store::durable::{Audit, Claimed, Kind, Listing};

use super::{IN_TIME, apply};
use super::{LONG, SHORT, Tier, claim_of, eventually, look, passed, running, settled, success};
use crate::bed::{Fresh, identity, identity_of};

/// The keys of all pages, and the length of each page.
async fn listed(tier: &Tier, asked: &Listing) -> (Vec<String>, Vec<usize>) {
    let (mut keys, mut pages, mut asked) = (Vec::new(), Vec::new(), asked.clone());
    loop {
        let page = tier.list(asked.clone()).await.expect("a page is read");
        pages.push(page.found.len());
        keys.extend(page.found.iter().map(|f| f.record.identity.key().as_str().to_owned()));
        match page.next {
            Some(next) => asked.after = Some(next),
            None => return (keys, pages),
        }
    }
}

async fn keys(tier: &Tier, asked: Listing) -> Vec<String> {
    listed(tier, &Listing { limit: 50, ..asked }).await.0
}

pub async fn records_are_listed_newest_first_in_pages(fresh: Fresh) {
    let tier = fresh.open().await;
    let names: Vec<_> = (0..25).map(|n| format!("key {n}")).collect();
    for name in &names {
        settled(&tier, name, success(name)).await;
    }
    let (listed, pages) = listed(&tier, &Listing { limit: 10, ..Listing::default() }).await;
    assert_eq!(listed, names.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(pages, [10, 10, 5]);
    let exact = Listing { limit: 25, state: Some(Kind::Succeeded), ..Listing::default() };
    assert_eq!(super::listing::listed(&tier, &exact).await.1, [25], "no empty page behind it");
}

pub async fn each_filter_finds_what_it_names_and_nothing_else(fresh: Fresh) {
    let tier = fresh.open().await;
    for (tenant, scope, key) in
        [("a", "pay", "1"), ("b", "pay", "1"), ("a", "refund", "1"), ("a", "pay", "2")]
    {
        let claim = claim_of(&identity_of(tenant, scope, key), LONG);
        assert!(matches!(tier.claim(claim).await, Ok(Claimed::New)));
    }
    let text = |text: &str| Some(text.to_owned());
    let all = Listing::default;
    assert_eq!(keys(&tier, Listing { key: text("1"), ..all() }).await.len(), 3);
    assert_eq!(keys(&tier, Listing { tenant: text("b"), ..all() }).await, ["1"]);
    assert_eq!(keys(&tier, Listing { scope: text("pay"), ..all() }).await, ["2", "1", "1"]);
    let both = Listing { key: text("1"), scope: text("refund"), tenant: text("a"), ..all() };
    assert_eq!(keys(&tier, both).await, ["1"]);
    let other = Listing { key: text("1"), state: Some(Kind::Failed), ..all() };
    assert!(keys(&tier, other).await.is_empty());
    assert!(keys(&tier, Listing { tenant: text("A"), ..all() }).await.is_empty());
    let old = Listing { older_than: LONG, state: Some(Kind::Processing), ..all() };
    assert!(keys(&tier, old).await.is_empty());
    let open = Listing { state: Some(Kind::Processing), tenant: text("a"), ..all() };
    assert_eq!(keys(&tier, open).await, ["1", "1", "2"], "what has stood longest first");
}

pub async fn open_records_are_listed_longest_standing_first(fresh: Fresh) {
    let tier = fresh.open().await;
    let hold = || Settlement::Hold { why: "silence".into(), retry_in: LONG, probe_in: LONG };
    let first = running(&tier, "began first", LONG).await;
    let mut names = Vec::new();
    for n in 0..12 {
        let name = format!("unknown {n}");
        settled(&tier, &name, hold()).await;
        names.push(name);
    }
    passed(&tier, "unknown 11", Duration::from_millis(2)).await;
    apply(&tier, first, hold()).await;
    names.push("began first".into());
    let asked = Listing { state: Some(Kind::Unknown), limit: 5, ..Listing::default() };
    let (listed, pages) = listed(&tier, &asked).await;
    assert_eq!(pages, [5, 5, 3]);
    assert_eq!(listed.last(), names.last(), "it ended last");
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(listed), sorted(names));
    passed(&tier, "began first", SHORT).await;
    let old = Listing { older_than: SHORT, ..asked };
    assert_eq!(keys(&tier, old).await.len(), 13);
}

pub async fn an_expired_record_is_not_listed(fresh: Fresh) {
    let tier = fresh.open().await;
    let fail = |keep| Settlement::Fail { then: Failure::Refuse, error: "no".into(), keep };
    settled(&tier, "kept", fail(LONG)).await;
    settled(&tier, "expired", fail(SHORT)).await;
    eventually("it expires", IN_TIME, async || {
        let found = look(&tier, "expired").await.expect("nobody purges here");
        found.record.is_expired(found.now)
    })
    .await;
    for state in [None, Some(Kind::Failed)] {
        assert_eq!(keys(&tier, Listing { state, ..Listing::default() }).await, ["kept"]);
    }
    let by_key = Listing { key: Some("expired".into()), ..Listing::default() };
    assert!(keys(&tier, by_key).await.is_empty());
}

pub async fn the_lines_of_one_record_are_read_in_order(fresh: Fresh) {
    let tier = fresh.open().await;
    for (key, note) in [("k", "1"), ("K", "other"), ("k", "2")] {
        running(&tier, key, Duration::ZERO).await;
        let audit = Audit { actor: "ops".into(), action: "forget", note: note.into() };
        assert_eq!(tier.forget(&identity(key), audit).await, Ok(true));
    }
    let lines = tier.audit_of(&identity("k")).await.expect("the lines are read");
    let notes: Vec<_> = lines.iter().map(|line| line.note.as_str()).collect();
    assert_eq!(notes, ["1", "2"]);
    assert!(tier.audit_of(&identity("none")).await.expect("read").is_empty());
}
