//! What the fast tier's values look like as bytes.
//!
//! A kind and, in a lock, its owner's token come first, at fixed places: the scripts inside Redis
//! compare them without reading the rest. A value that this version cannot read is no news at all,
//! so that two versions can share a server.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::idempotency::{Body, Credential, Fingerprint, HeaderBlock, Snapshot, Token};
use crate::store::fast::{Finished, Lock, Value};

pub const LOCK: u8 = b'L';
pub const FINISHED: u8 = b'D';
pub const FORGOTTEN: u8 = b'F';
const VERSION: u8 = 1;
/// The kind and the token.
pub const PREFIX_LEN: usize = 17;

#[derive(Serialize, Deserialize)]
struct LockWire {
    fingerprint: Option<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
struct FinishedWire<'a> {
    fingerprint: Option<[u8; 32]>,
    credential: Option<[u8; 32]>,
    status: u16,
    #[serde(borrow)]
    headers: &'a [u8],
    body: Option<&'a [u8]>,
}

/// What a lock of this owner starts with.
pub fn owned_by(token: Token) -> [u8; PREFIX_LEN] {
    let mut prefix = [LOCK; PREFIX_LEN];
    prefix[1..].copy_from_slice(token.0.as_bytes());
    prefix
}

pub fn encode(value: &Value) -> Vec<u8> {
    match value {
        Value::Locked(lock) => {
            let mut bytes = owned_by(lock.token).to_vec();
            bytes.push(VERSION);
            append(bytes, &LockWire { fingerprint: lock.fingerprint.map(|f| *f.as_bytes()) })
        }
        Value::Finished(finished) => {
            let wire = FinishedWire {
                fingerprint: finished.fingerprint.map(|f| *f.as_bytes()),
                credential: finished.credential.map(|c| *c.as_bytes()),
                status: finished.answer.status,
                headers: finished.answer.headers.as_bytes(),
                body: match &finished.answer.body {
                    Body::Stored(bytes) => Some(bytes),
                    Body::TooLong => None,
                },
            };
            let mut bytes = Vec::with_capacity(finished.answer.len() + 96);
            bytes.extend([FINISHED, VERSION]);
            append(bytes, &wire)
        }
        Value::Forgotten => vec![FORGOTTEN],
    }
}

/// None: nothing that this version understands.
pub fn decode(bytes: &Bytes) -> Option<Value> {
    match *bytes.first()? {
        LOCK => {
            let token = Uuid::from_slice(bytes.get(1..PREFIX_LEN)?).ok()?;
            let wire: LockWire = versioned(bytes.get(PREFIX_LEN..)?)?;
            Some(Value::Locked(Lock {
                token: Token(token),
                fingerprint: wire.fingerprint.map(Fingerprint::from_bytes),
            }))
        }
        FINISHED => {
            let wire: FinishedWire<'_> = versioned(&bytes[1..])?;
            Some(Value::Finished(Finished {
                fingerprint: wire.fingerprint.map(Fingerprint::from_bytes),
                credential: wire.credential.map(Credential::from_bytes),
                answer: Snapshot {
                    status: wire.status,
                    headers: HeaderBlock::from_stored(bytes.slice_ref(wire.headers)),
                    body: wire
                        .body
                        .map_or(Body::TooLong, |body| Body::Stored(bytes.slice_ref(body))),
                },
            }))
        }
        FORGOTTEN => Some(Value::Forgotten),
        _ => None,
    }
}

fn append(bytes: Vec<u8>, wire: &impl Serialize) -> Vec<u8> {
    // Only a wire type that refuses to serialize could fail, and these do not.
    postcard::to_extend(wire, bytes).unwrap_or_default()
}

fn versioned<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    let (&VERSION, wire) = bytes.split_first()? else {
        return None;
    };
    postcard::from_bytes(wire).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest() -> impl Strategy<Value = Option<[u8; 32]>> {
        proptest::option::of(any::<[u8; 32]>())
    }

    fn values() -> impl Strategy<Value = Value> {
        let locks = (any::<[u8; 16]>(), digest()).prop_map(|(token, fingerprint)| {
            Value::Locked(Lock {
                token: Token(Uuid::from_bytes(token)),
                fingerprint: fingerprint.map(Fingerprint::from_bytes),
            })
        });
        let body = proptest::option::of(any::<Vec<u8>>());
        let finished = (digest(), digest(), any::<u16>(), any::<Vec<u8>>(), body).prop_map(
            |(fingerprint, credential, status, headers, body)| {
                Value::Finished(Finished {
                    fingerprint: fingerprint.map(Fingerprint::from_bytes),
                    credential: credential.map(Credential::from_bytes),
                    answer: Snapshot {
                        status,
                        headers: HeaderBlock::from_stored(headers.into()),
                        body: body.map_or(Body::TooLong, |body| Body::Stored(body.into())),
                    },
                })
            },
        );
        prop_oneof![locks, finished, Just(Value::Forgotten)]
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(value in values()) {
            prop_assert_eq!(decode(&encode(&value).into()), Some(value));
        }

        #[test]
        fn bytes_of_any_kind_never_panic(bytes in any::<Vec<u8>>()) {
            let _ = decode(&bytes.into());
        }

        #[test]
        fn a_lock_starts_with_what_its_owner_looks_for(token in any::<[u8; 16]>()) {
            let token = Token(Uuid::from_bytes(token));
            let lock = Value::Locked(Lock { token, fingerprint: None });
            prop_assert!(encode(&lock).starts_with(&owned_by(token)));
        }
    }

    #[test]
    fn a_value_of_another_version_is_no_news() {
        let mut bytes = encode(&Value::Locked(Lock { token: Token::fresh(), fingerprint: None }));
        bytes[PREFIX_LEN] = VERSION + 1;
        assert_eq!(decode(&bytes.into()), None);
    }
}
