//! The durable row of one identity, with the data of each state inside its variant.

use std::fmt;

use uuid::Uuid;

use super::{Credential, Fingerprint, Identity, Snapshot};
use crate::clock::Timestamp;

/// Which row. Time-ordered, chosen by the claimer, so that it can recognise its own insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub Uuid);

impl RecordId {
    pub fn fresh() -> Self {
        Self(Uuid::now_v7())
    }
}

/// Who owns one attempt. Random and never reused: a write that carries it can only hit the attempt
/// it was made for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub Uuid);

impl Token {
    pub fn fresh() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What every write after the claim has to show: this attempt of this row, and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    pub id: RecordId,
    pub token: Token,
}

/// Who runs the attempts of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// This process or another one like it: it renews the lease while it runs.
    #[default]
    Call,
    /// A caller of the decision API, who may be anywhere: nobody renews but that caller.
    Decision,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: RecordId,
    pub identity: Identity,
    pub fingerprint: Option<Fingerprint>,
    pub credential: Option<Credential>,
    /// 1, 2, 3 …
    pub attempt: u32,
    pub token: Token,
    pub state: State,
    pub result_ref: Option<String>,
    pub last_error: Option<LastError>,
    pub origin: Origin,
    /// When a job has to see to it: call a decision's owner back, probe an unknown call.
    pub attend_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// While PROCESSING: when this attempt began.
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Processing {
        lease_until: Timestamp,
    },
    Succeeded {
        answer: Snapshot,
        expires_at: Timestamp,
    },
    Failed {
        then: AfterFailure,
        expires_at: Timestamp,
    },
    /// It was sent and nobody knows what happened. Where policy allows a retry, not before this.
    Unknown {
        retry_at: Timestamp,
    },
}

/// What a failed record does to the next retry. It is written with the failure, so that a later
/// change of policy does not rewrite what clients were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    Execute {
        from: Timestamp,
    },
    /// By an operator's leave, however many attempts there were.
    Allowed,
    Replay {
        answer: Snapshot,
    },
    Refuse,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    pub message: String,
    pub at: Timestamp,
}

/// A record and the durable tier's clock when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub record: Record,
    pub now: Timestamp,
}

impl Record {
    pub fn fence(&self) -> Fence {
        Fence { id: self.id, token: self.token }
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        match self.state {
            State::Succeeded { expires_at, .. } | State::Failed { expires_at, .. } => {
                expires_at <= now
            }
            State::Processing { .. } | State::Unknown { .. } => false,
        }
    }
}

impl State {
    /// The word of the contract, the database and the logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Processing { .. } => "PROCESSING",
            Self::Succeeded { .. } => "SUCCEEDED",
            Self::Failed { .. } => "FAILED",
            Self::Unknown { .. } => "UNKNOWN",
        }
    }
}
