//! The whole walk around a closure: for services that want the engine inside.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Acquired, Claim, Engine, Request, Settled, StillOurs};
use crate::idempotency::{Body, Refusal, Snapshot};
use crate::store::StoreError;

const REFERENCE_MAX_CHARACTERS: usize = 255;

/// How a call came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The closure ran, now, and its value is stored.
    Executed(T),
    /// It had run before; this is what it returned then.
    Replayed(T),
    /// A duplicate is running and did not end within the wait.
    InProgress,
}

impl<T> Outcome<T> {
    pub fn value(self) -> Option<T> {
        match self {
            Self::Executed(value) | Self::Replayed(value) => Some(value),
            Self::InProgress => None,
        }
    }

    pub fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }

    pub fn is_in_progress(&self) -> bool {
        matches!(self, Self::InProgress)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ExecuteError<E> {
    /// The same identity came with another fingerprint: the key is used for two different requests.
    #[error("this idempotency key was used for a different request; use a new key")]
    Mismatch,
    /// The closure's own error. The record is FAILED.
    #[error("the operation failed: {0}")]
    Operation(E),
    #[error("an earlier attempt failed{}", again(*.retry_after))]
    Failed { retry_after: Option<Duration> },
    /// An earlier attempt began and never said how it ended.
    #[error("an earlier attempt's outcome is unknown: it may have happened{}", again(*.retry_after))]
    Unknown { retry_after: Option<Duration> },
    /// The closure panicked or was cut off. The record is UNKNOWN.
    #[error("the operation was interrupted: it may have happened")]
    Interrupted,
    /// The closure ran, but another attempt had taken the record over.
    #[error("another attempt took over while the operation ran; its outcome counts")]
    Superseded,
    /// It ran and its value cannot be given back: too long to store, or not readable as this type.
    #[error("the operation has run, but its value cannot be given back: {0}")]
    NoValue(String),
    /// The closure did not run.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn again(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |pause| format!("; try again in {pause:?}"))
}

impl Engine {
    /// Runs `operation` at most once for the request's identity, and gives its value to everybody
    /// who asks for it again.
    ///
    /// The closure runs in a task of its own: a caller that is dropped (a client that hangs up)
    /// changes nothing, and its value is stored all the same. The value is durable before this
    /// returns; should the durable tier be away, this waits for it.
    pub async fn execute<T, E, F, Fut>(
        &self,
        request: Request,
        operation: F,
    ) -> Result<Outcome<T>, ExecuteError<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Display + Send + 'static,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.execute_with_ref(request, operation, |_| None).await
    }

    /// The same, and notes in the record what the value stands for: the public id of what was
    /// created, so that an operator finds it. At most 255 characters; a longer one is left out.
    pub async fn execute_with_ref<T, E, F, Fut, R>(
        &self,
        request: Request,
        operation: F,
        refer: R,
    ) -> Result<Outcome<T>, ExecuteError<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Display + Send + 'static,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        R: FnOnce(&T) -> Option<String> + Send + 'static,
    {
        match self.acquire(&request).await? {
            Acquired::Execute(claim) => {
                let run = tokio::spawn(run(claim, operation, refer));
                run.await.unwrap_or(Err(ExecuteError::Interrupted)).map(Outcome::Executed)
            }
            Acquired::Replay(replay) => value(&replay.answer).map(Outcome::Replayed),
            Acquired::Refuse(refusal) => match refusal {
                Refusal::InProgress { .. } => Ok(Outcome::InProgress),
                Refusal::KeyReused | Refusal::CredentialMismatch => Err(ExecuteError::Mismatch),
                Refusal::AttemptFailed { retry_after } => Err(ExecuteError::Failed { retry_after }),
                Refusal::OutcomeUnknown { retry_after } => {
                    Err(ExecuteError::Unknown { retry_after })
                }
                Refusal::ResponseNotStored { .. } => {
                    Err(ExecuteError::NoValue("it was too long to store".into()))
                }
            },
        }
    }
}

async fn run<T, E, F, Fut, R>(claim: Claim, operation: F, refer: R) -> Result<T, ExecuteError<E>>
where
    T: Serialize,
    E: Display,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    R: FnOnce(&T) -> Option<String>,
{
    match claim.confirm().await {
        Ok(StillOurs::Yes) => {}
        Ok(StillOurs::No) => {
            claim.release_later("it came too late");
            return Err(ExecuteError::Superseded);
        }
        Err(error) => {
            claim.release_later("the durable tier could not confirm it");
            return Err(error.into());
        }
    }
    let Ok(result) = AssertUnwindSafe(async { operation().await }).catch_unwind().await else {
        claim.unknown("the operation panicked").await;
        return Err(ExecuteError::Interrupted);
    };
    let (settled, result) = match result {
        Ok(value) => match serde_json::to_vec(&value) {
            Ok(json) => {
                let fits = |text: &String| text.chars().count() <= REFERENCE_MAX_CHARACTERS;
                let reference = refer(&value).filter(fits);
                (claim.complete(Snapshot::of_value(json), reference).await, Ok(value))
            }
            // It has happened, and must not happen again.
            Err(error) => {
                let done = Snapshot::of_value(Vec::new()).without_body();
                (claim.complete(done, None).await, Err(ExecuteError::NoValue(error.to_string())))
            }
        },
        Err(error) => {
            (claim.fail(None, error.to_string()).await, Err(ExecuteError::Operation(error)))
        }
    };
    match settled {
        Settled::Stored => result,
        Settled::Fenced => Err(ExecuteError::Superseded),
        Settled::NotStored => Err(ExecuteError::Interrupted),
    }
}

fn value<T: DeserializeOwned, E>(answer: &Snapshot) -> Result<T, ExecuteError<E>> {
    match &answer.body {
        Body::Stored(json) => {
            serde_json::from_slice(json).map_err(|error| ExecuteError::NoValue(error.to_string()))
        }
        Body::TooLong => Err(ExecuteError::NoValue("it was too long to store".into())),
    }
}
