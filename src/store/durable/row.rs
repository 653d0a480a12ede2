//! A row as the databases give it, and the record it stands for.

use bytes::Bytes;
use uuid::Uuid;

use super::AuditLine;
use crate::clock::Timestamp;
use crate::idempotency::record::{AfterFailure, LastError};
use crate::idempotency::{
    Body, Credential, Fingerprint, Found, HeaderBlock, Identity, Key, Origin, Record, RecordId,
    Scope, Snapshot, State, Tenant, Token,
};
use crate::store::StoreError;

/// The columns of every read, the same in all three dialects.
#[derive(sqlx::FromRow)]
pub struct Row {
    pub id: Uuid,
    pub tenant: Vec<u8>,
    pub scope: Vec<u8>,
    pub idem_key: Vec<u8>,
    pub fingerprint: Option<Vec<u8>>,
    pub credential: Option<Vec<u8>>,
    pub state: Vec<u8>,
    pub attempt: i32,
    pub token: Uuid,
    pub due_at: Option<i64>,
    pub expires_at: Option<i64>,
    pub response_status: Option<i32>,
    pub response_headers: Option<Vec<u8>>,
    pub response_body: Option<Vec<u8>>,
    pub result_ref: Option<Vec<u8>>,
    pub last_error: Option<Vec<u8>>,
    pub last_error_at: Option<i64>,
    pub decision: i16,
    pub attend_at: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
    pub db_now: i64,
}

/// Who owns a row, for a writer that wants to know whether its write counted.
#[derive(sqlx::FromRow)]
pub struct OwnerRow {
    pub id: Uuid,
    pub token: Uuid,
    pub attempt: i32,
    pub state: Vec<u8>,
}

#[derive(sqlx::FromRow)]
pub struct AuditRow {
    pub id: i64,
    pub at: i64,
    pub actor: Vec<u8>,
    pub action: Vec<u8>,
    pub tenant: Vec<u8>,
    pub scope: Vec<u8>,
    pub idem_key: Vec<u8>,
    pub note: Vec<u8>,
}

#[derive(sqlx::FromRow)]
pub struct CountsRow {
    pub processing: i64,
    pub stuck: i64,
    pub unknown: i64,
    pub oldest_millis: Option<i64>,
}

pub const PROCESSING: &[u8] = b"PROCESSING";
pub const UNKNOWN: &[u8] = b"UNKNOWN";

impl Row {
    pub fn found(self) -> Result<Found, StoreError> {
        let now = Timestamp::from_millis(self.db_now);
        let id = self.id;
        let record = self.record().map_err(|what| {
            StoreError::Misconfigured(format!("record {id} in the durable tier has {what}"))
        })?;
        Ok(Found { record, now })
    }

    fn record(self) -> Result<Record, &'static str> {
        let identity = identity(self.tenant, self.scope, self.idem_key)?;
        let due_at = self.due_at.map(Timestamp::from_millis);
        let expires_at = self.expires_at.map(Timestamp::from_millis);
        let answer = self.response_status.map(|status| Snapshot {
            status: u16::try_from(status).unwrap_or(500),
            headers: HeaderBlock::from_stored(self.response_headers.unwrap_or_default().into()),
            body: self.response_body.map_or(Body::TooLong, |body| Body::Stored(Bytes::from(body))),
        });
        let state = match self.state.as_slice() {
            PROCESSING => State::Processing { lease_until: due_at.ok_or("no lease")? },
            UNKNOWN => State::Unknown { retry_at: due_at.ok_or("no time of its next retry")? },
            b"SUCCEEDED" => State::Succeeded {
                answer: answer.ok_or("no answer")?,
                expires_at: expires_at.ok_or("no expiry")?,
            },
            b"FAILED" => State::Failed {
                then: match (answer, due_at) {
                    (Some(answer), _) => AfterFailure::Replay { answer },
                    (None, Some(from)) if from.as_millis() < 0 => AfterFailure::Allowed,
                    (None, Some(from)) => AfterFailure::Execute { from },
                    (None, None) => AfterFailure::Refuse,
                },
                expires_at: expires_at.ok_or("no expiry")?,
            },
            _ => return Err("a state that this version does not know"),
        };
        Ok(Record {
            id: RecordId(self.id),
            identity,
            fingerprint: digest(self.fingerprint)?.map(Fingerprint::from_bytes),
            credential: digest(self.credential)?.map(Credential::from_bytes),
            attempt: u32::try_from(self.attempt).map_err(|_| "a negative attempt")?,
            token: Token(self.token),
            state,
            result_ref: self.result_ref.map(text).transpose()?,
            last_error: match (self.last_error, self.last_error_at) {
                (Some(message), Some(at)) => {
                    Some(LastError { message: text(message)?, at: Timestamp::from_millis(at) })
                }
                _ => None,
            },
            origin: if self.decision == 0 { Origin::Call } else { Origin::Decision },
            attend_at: self.attend_at.map(Timestamp::from_millis),
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
        })
    }
}

impl AuditRow {
    pub fn line(self) -> Result<AuditLine, StoreError> {
        let damaged = |what: &str| {
            StoreError::Misconfigured(format!("line {} of the audit trail has {what}", self.id))
        };
        Ok(AuditLine {
            id: self.id,
            at: Timestamp::from_millis(self.at),
            actor: text(self.actor).map_err(damaged)?,
            action: text(self.action).map_err(damaged)?,
            identity: identity(self.tenant, self.scope, self.idem_key).map_err(damaged)?,
            note: text(self.note).map_err(damaged)?,
        })
    }
}

pub fn identity(tenant: Vec<u8>, scope: Vec<u8>, key: Vec<u8>) -> Result<Identity, &'static str> {
    let scope = Scope::new(&text(scope)?).map_err(|_| "a malformed scope")?;
    Ok(Identity::new(Tenant::from_stored(&text(tenant)?), scope, Key::from_stored(&text(key)?)))
}

pub fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    String::from_utf8(bytes).map_err(|_| "text that is not UTF-8")
}

fn digest(bytes: Option<Vec<u8>>) -> Result<Option<[u8; 32]>, &'static str> {
    bytes.map(|b| b.try_into().map_err(|_| "a digest that is not 32 bytes long")).transpose()
}
