//! Records and policies of every kind, for the property tests of the pure core.

use std::time::Duration;

use proptest::prelude::*;

use super::key::KeyRules;
use super::record::AfterFailure;
use super::{
    Body, Credential, Fingerprint, Found, HeaderBlock, Identity, Key, Origin, Policy, Record,
    RecordId, ReplayTo, Scope, Snapshot, State, Tenant, Token, WhenFailed, WhenUnknown,
};
use crate::clock::Timestamp;

fn times() -> impl Strategy<Value = Timestamp> {
    (0..200i64).prop_map(Timestamp::from_millis)
}

fn durations() -> impl Strategy<Value = Duration> {
    (0..200u64).prop_map(Duration::from_millis)
}

pub fn snapshots() -> impl Strategy<Value = Snapshot> {
    let body = prop_oneof![
        any::<Vec<u8>>().prop_map(|body| Body::Stored(body.into())),
        Just(Body::TooLong)
    ];
    (100..600u16, body).prop_map(|(status, body)| Snapshot {
        status,
        headers: HeaderBlock::default(),
        body,
    })
}

fn states() -> impl Strategy<Value = State> {
    let then = prop_oneof![
        times().prop_map(|from| AfterFailure::Execute { from }),
        snapshots().prop_map(|answer| AfterFailure::Replay { answer }),
        Just(AfterFailure::Refuse),
        Just(AfterFailure::Allowed),
    ];
    prop_oneof![
        times().prop_map(|lease_until| State::Processing { lease_until }),
        (snapshots(), times())
            .prop_map(|(answer, expires_at)| State::Succeeded { answer, expires_at }),
        (then, times()).prop_map(|(then, expires_at)| State::Failed { then, expires_at }),
        times().prop_map(|retry_at| State::Unknown { retry_at }),
    ]
}

/// Few distinct digests, so that they often match.
fn digests() -> impl Strategy<Value = Option<[u8; 32]>> {
    proptest::option::of((0..2u8).prop_map(|n| [n; 32]))
}

fn origins() -> impl Strategy<Value = Origin> {
    prop_oneof![Just(Origin::Call), Just(Origin::Decision)]
}

pub fn founds() -> impl Strategy<Value = Found> {
    (states(), 1..6u32, digests(), digests(), times(), times(), origins()).prop_map(
        |(state, attempt, fingerprint, credential, updated_at, now, origin)| {
            let key = Key::new("key", &KeyRules::default()).expect("it is a key");
            let record = Record {
                id: RecordId::fresh(),
                identity: Identity::new(Tenant::none(), Scope::default(), key),
                fingerprint: fingerprint.map(Fingerprint::from_bytes),
                credential: credential.map(Credential::from_bytes),
                attempt,
                token: Token::fresh(),
                state,
                result_ref: None,
                last_error: None,
                origin,
                attend_at: None,
                created_at: updated_at,
                updated_at,
            };
            Found { record, now }
        },
    )
}

pub fn policies() -> impl Strategy<Value = Policy> {
    let when_failed =
        prop_oneof![Just(WhenFailed::Retry), Just(WhenFailed::Replay), Just(WhenFailed::Reject)];
    let when_unknown = prop_oneof![Just(WhenUnknown::Hold), Just(WhenUnknown::Retry)];
    let replay_to = prop_oneof![Just(ReplayTo::AnyCredential), Just(ReplayTo::SameCredential)];
    let times = (durations(), durations(), durations(), durations());
    (times, 1..6u32, when_failed, when_unknown, replay_to, origins()).prop_map(
        |(
            (ttl, lease, settle_after, retry_backoff),
            max_attempts,
            when_failed,
            when_unknown,
            replay_to,
            origin,
        )| Policy {
            ttl,
            lease,
            settle_after,
            wait: Duration::ZERO,
            when_failed,
            when_unknown,
            max_attempts,
            retry_backoff,
            replay_to,
            origin,
        },
    )
}
