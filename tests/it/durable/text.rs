//! Identities are compared byte for byte, whatever the database makes of text by default.

use std::collections::HashSet;

use oncegate::idempotency::{Identity, Key, Scope, Tenant};
use oncegate::store::StoreError;
use oncegate::store::durable::Claimed;

use super::{LONG, Tier, claim_of};
use crate::bed::{Fresh, identity, identity_of};

const ALIKE: [&str; 28] = [
    "ABC", "abc", "Abc", "a", "a ", " a", "a  ", "ä", "a\u{308}", "Ä", "ss", "ß", "SS", "ı", "i",
    "I", "'", "\"", "''", ":", "::", "\\", "\\\\", "%", "_", "🦀", "🦀🦀", "?",
];

pub async fn texts_that_look_alike_are_different_identities(fresh: Fresh) {
    let tier = fresh.open().await;
    let identities: Vec<Identity> = ALIKE
        .iter()
        .flat_map(|text| {
            [
                identity_of(text, "scope", "key"),
                identity_of("tenant", text, "key"),
                identity_of("tenant", "scope", text),
            ]
        })
        .collect();
    all_distinct(&tier, &identities).await;
}

pub async fn the_longest_texts_of_four_byte_characters_are_kept_whole(fresh: Fresh) {
    let tier = fresh.open().await;
    // Varied, or a database that compresses would hide an index that is too small.
    let text = |length: u32, last: char| -> String {
        let mut seed = 1_u32;
        let mut varied = |_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from_u32(0x20000 + (seed >> 16) % 0xa000).expect("a character")
        };
        let mut text: String = (1..length).map(&mut varied).collect();
        text.push(last);
        assert_eq!(text.len(), length as usize * 4);
        text
    };
    let mut identities = Vec::new();
    for (tenant, scope, key) in
        [('🐘', '🐘', '🐘'), ('🐬', '🐘', '🐘'), ('🐘', '🐬', '🐘'), ('🐘', '🐘', '🐬')]
    {
        let (tenant, scope, key) = (text(255, tenant), text(128, scope), text(255, key));
        identities.push(identity_of(&tenant, &scope, &key));
    }
    all_distinct(&tier, &identities).await;
}

pub async fn three_texts_are_never_mistaken_for_another_three(fresh: Fresh) {
    let tier = fresh.open().await;
    let shifted = [
        ("ab", "c", "d"),
        ("a", "bc", "d"),
        ("a", "b", "cd"),
        ("", "abc", "d"),
        ("a", "c", "b"),
        ("b", "a", "c"),
        ("c", "b", "a"),
        ("a:b", "c", "d"),
        ("a", "b:c", "d"),
    ];
    let identities = shifted.map(|(tenant, scope, key)| identity_of(tenant, scope, key));
    all_distinct(&tier, &identities).await;
}

/// All at once, so that they share statements: each is admitted, and found again as itself.
async fn all_distinct(tier: &Tier, identities: &[Identity]) {
    let claims: Vec<_> = identities.iter().map(|i| claim_of(i, LONG)).collect();
    let claimed = claims.iter().map(|claim| tier.claim(claim.clone()));
    let claimed = futures_util::future::join_all(claimed).await;
    for (claim, claimed) in claims.iter().zip(claimed) {
        let texts = claim.identity.index_order();
        assert!(matches!(claimed, Ok(Claimed::New)), "{texts:?} was taken: {claimed:?}");
    }
    let mut ids = HashSet::new();
    for claim in &claims {
        let found = tier.find(&claim.identity).await.expect("answered");
        let record = found.expect("it is found").record;
        assert_eq!(record.identity.index_order(), claim.identity.index_order());
        assert_eq!(record.id, claim.fence.id);
        ids.insert(record.id);
    }
    assert_eq!(ids.len(), identities.len());
}

pub async fn an_identity_too_long_for_the_columns_is_refused_and_its_neighbours_are_not(
    fresh: Fresh,
) {
    let tier = fresh.open().await;
    let long = "k".repeat(1021);
    let scope = || Scope::new("payment").expect("a scope");
    let key = Identity::new(Tenant::none(), scope(), Key::from_stored(&long));
    let tenant = Identity::new(Tenant::from_stored(&long), scope(), Key::from_stored("k"));
    let mut claims: Vec<_> = (0..14).map(|n| identity(&n.to_string())).collect();
    claims.insert(3, key.clone());
    claims.insert(9, tenant.clone());
    let claimed = claims.iter().map(|i| tier.claim(claim_of(i, LONG)));
    let claimed = futures_util::future::join_all(claimed).await;
    for (identity, claimed) in claims.iter().zip(claimed) {
        if *identity == key || *identity == tenant {
            assert!(matches!(claimed, Err(StoreError::Rejected { .. })), "{claimed:?}");
        } else {
            assert!(matches!(claimed, Ok(Claimed::New)), "{claimed:?}");
        }
    }
    // Nor was it shortened to one that fits.
    let cut = Key::from_stored(&long[..1020]);
    let cut = Identity::new(Tenant::none(), scope(), cut);
    assert!(tier.find(&cut).await.expect("answered").is_none());
}
