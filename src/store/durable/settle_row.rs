//! A settlement as the columns it writes.

use crate::clock::millis;
use crate::idempotency::settle::Failure;
use crate::idempotency::{Body, Fence, Settlement, Snapshot};

/// Added to any date it is before 1970: how a row says that an operator allowed the next attempt.
const LONG_AGO: i64 = i64::MIN / 4;

/// Of a row without its texts and blobs: a token beside each of a dozen columns.
const FIXED_BYTES: u64 = 512;

/// A settlement as the columns it writes.
pub struct SettleRow<'a> {
    pub fence: Fence,
    pub state: &'static str,
    pub due_in: Option<i64>,
    pub probe_in: Option<i64>,
    pub keep: Option<i64>,
    pub status: Option<i32>,
    pub headers: Option<&'a [u8]>,
    pub body: Option<&'a [u8]>,
    pub result_ref: Option<&'a str>,
    pub error: Option<&'a str>,
    /// The number that an attempt which did not take place goes back to.
    pub attempt: Option<i32>,
}

impl<'a> SettleRow<'a> {
    /// None for a release, which writes nothing.
    pub fn new(fence: Fence, settlement: &'a Settlement) -> Option<Self> {
        let blank = |state| Self {
            fence,
            state,
            due_in: None,
            probe_in: None,
            keep: None,
            status: None,
            headers: None,
            body: None,
            result_ref: None,
            error: None,
            attempt: None,
        };
        Some(match settlement {
            Settlement::Succeed { answer, result_ref, keep } => Self {
                keep: Some(millis(*keep)),
                result_ref: result_ref.as_deref(),
                ..blank("SUCCEEDED").answering(answer)
            },
            Settlement::Fail { then, error, keep } => {
                let failed =
                    Self { keep: Some(millis(*keep)), error: Some(error), ..blank("FAILED") };
                match then {
                    Failure::Allowed => Self { due_in: Some(LONG_AGO), ..failed },
                    Failure::ExecuteAgain { after } => {
                        Self { due_in: Some(millis(*after)), ..failed }
                    }
                    Failure::Replay { answer } => failed.answering(answer),
                    Failure::Refuse => failed,
                }
            }
            Settlement::Hold { why, retry_in, probe_in } => Self {
                due_in: Some(millis(*retry_in)),
                probe_in: Some(millis(*probe_in)),
                error: Some(why),
                ..blank("UNKNOWN")
            },
            Settlement::Release => return None,
            Settlement::Undo { attempt, back } => {
                Self { attempt: i32::try_from(*attempt).ok(), ..Self::new(fence, back)? }
            }
        })
    }

    /// About how many bytes it puts on the wire: its texts and blobs, and all the rest generously.
    pub fn bytes(&self) -> u64 {
        let blobs = [self.headers, self.body].map(|blob| blob.map_or(0, <[u8]>::len));
        let texts = [self.result_ref, self.error].map(|text| text.map_or(0, str::len));
        let bytes: usize = blobs.into_iter().chain(texts).sum();
        bytes as u64 + FIXED_BYTES
    }

    /// A success that says no more than its answer.
    pub fn is_plain_answer(&self) -> bool {
        self.state == "SUCCEEDED" && self.result_ref.is_none()
    }

    fn answering(self, answer: &'a Snapshot) -> Self {
        Self {
            status: Some(answer.status.into()),
            headers: Some(answer.headers.as_bytes()),
            body: match &answer.body {
                Body::Stored(bytes) => Some(bytes),
                Body::TooLong => None,
            },
            ..self
        }
    }
}

/// Binds the columns of a row in the order in which databases that can update from a list take them.
macro_rules! bind_row {
    ($query:expr, $row:expr) => {
        $query
            .bind($row.fence.id.0)
            .bind($row.fence.token.0)
            .bind($row.state)
            .bind($row.due_in)
            .bind($row.keep)
            .bind($row.status)
            .bind($row.headers)
            .bind($row.body)
            .bind($row.result_ref)
            .bind($row.error)
            .bind($row.probe_in)
            .bind($row.attempt)
    };
}
pub(super) use bind_row;
