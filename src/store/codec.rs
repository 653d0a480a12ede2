//! What the fast tier's values look like as bytes.
//!
//! A kind and, in a lock, its owner's token come first, at fixed places: the scripts inside Redis
//! compare them without reading the rest. A value that this version cannot read is no news at all,
//! so that two versions can share a server.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::idempotency::{Body, Credential, Fingerprint, HeaderBlock, Snapshot, Token};
use crate::store::fast::{Finished, Lock, Rescued, Value};

pub const LOCK: u8 = b'L';
pub const FINISHED: u8 = b'D';
pub const RESCUED: u8 = b'R';
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

#[derive(Serialize, Deserialize)]
struct RescuedWire<'a> {
    owner: [u8; 16],
    error: Option<&'a str>,
    result_ref: Option<&'a str>,
    keep_millis: u64,
    #[serde(borrow)]
    finished: FinishedWire<'a>,
}

impl<'a> FinishedWire<'a> {
    fn of(finished: &'a Finished) -> Self {
        Self {
            fingerprint: finished.fingerprint.map(|f| *f.as_bytes()),
            credential: finished.credential.map(|c| *c.as_bytes()),
            status: finished.answer.status,
            headers: finished.answer.headers.as_bytes(),
            body: match &finished.answer.body {
                Body::Stored(bytes) => Some(bytes),
                Body::TooLong => None,
            },
        }
    }

    /// What was read from these bytes, which are kept rather than copied.
    fn finished(&self, bytes: &Bytes) -> Finished {
        Finished {
            fingerprint: self.fingerprint.map(Fingerprint::from_bytes),
            credential: self.credential.map(Credential::from_bytes),
            answer: Snapshot {
                status: self.status,
                headers: HeaderBlock::from_stored(bytes.slice_ref(self.headers)),
                body: self.body.map_or(Body::TooLong, |body| Body::Stored(bytes.slice_ref(body))),
            },
        }
    }
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
            let mut bytes = Vec::with_capacity(finished.answer.len() + 96);
            bytes.extend([FINISHED, VERSION]);
            append(bytes, &FinishedWire::of(finished))
        }
        Value::Rescued(rescued) => {
            let wire = RescuedWire {
                owner: *rescued.owner.0.as_bytes(),
                error: rescued.error.as_deref(),
                result_ref: rescued.result_ref.as_deref(),
                keep_millis: u64::try_from(rescued.keep.as_millis()).unwrap_or(u64::MAX),
                finished: FinishedWire::of(&rescued.finished),
            };
            append(vec![RESCUED, VERSION], &wire)
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
            Some(Value::Finished(wire.finished(bytes)))
        }
        RESCUED => {
            let wire: RescuedWire<'_> = versioned(&bytes[1..])?;
            Some(Value::Rescued(Box::new(Rescued {
                owner: Token(Uuid::from_bytes(wire.owner)),
                finished: wire.finished.finished(bytes),
                error: wire.error.map(str::to_owned),
                result_ref: wire.result_ref.map(str::to_owned),
                keep: Duration::from_millis(wire.keep_millis),
            })))
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
        let body = || proptest::option::of(any::<Vec<u8>>());
        let parts = || (digest(), digest(), any::<u16>(), any::<Vec<u8>>(), body());
        let finished = || {
            parts().prop_map(|(fingerprint, credential, status, headers, body)| Finished {
                fingerprint: fingerprint.map(Fingerprint::from_bytes),
                credential: credential.map(Credential::from_bytes),
                answer: Snapshot {
                    status,
                    headers: HeaderBlock::from_stored(headers.into()),
                    body: body.map_or(Body::TooLong, |body| Body::Stored(body.into())),
                },
            })
        };
        let text = || proptest::option::of(".{0,20}");
        let rescued = (any::<[u8; 16]>(), finished(), text(), text(), any::<u64>()).prop_map(
            |(owner, finished, error, result_ref, keep)| {
                let (owner, keep) = (Token(Uuid::from_bytes(owner)), Duration::from_millis(keep));
                Value::Rescued(Box::new(Rescued { owner, finished, error, result_ref, keep }))
            },
        );
        prop_oneof![locks, finished().prop_map(Value::Finished), rescued, Just(Value::Forgotten)]
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
