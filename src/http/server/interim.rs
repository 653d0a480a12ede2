//! Interim answers (102, 103 …) on their way to a client on HTTP/1.1.
//!
//! The HTTP library's server can send none but 100, so they go past it, straight into the socket.
//! That is safe only where one message has ended and the next has not begun:
//!
//! - They are taken while a request is being answered and its answer has not begun, and only if
//!   all that the library had to say before has been written ([`Interims::all_written`]).
//! - What was taken is written before anything else is ([`super::socket`]).
//!
//! Where either does not hold they are dropped, which no client can tell from an API that sent none.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};

use super::pulse::Pulse;
use crate::http::headers;

/// What a client that does not read is offered.
const MOST_BYTES: usize = 16 << 10;

#[derive(Default)]
pub(super) struct Interims {
    /// The library has written something and not said that it was all.
    unfinished: AtomicBool,
    /// There is something in `waiting`.
    any: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// A request is in the hands of its handler.
    open: bool,
    bytes: BytesMut,
    connection: Option<Waker>,
}

/// Goes with a request, as one of its extensions: the way back for its interim answers.
#[derive(Clone)]
pub struct Interim(Arc<Pulse>);

impl Interim {
    pub(super) fn begin(pulse: &Arc<Pulse>) -> Self {
        pulse.interims.lock().open = true;
        Self(pulse.clone())
    }

    /// The answer itself follows.
    pub(super) fn end(&self) {
        self.0.interims.lock().open = false;
    }

    /// Passes one on, if there still is a place for it.
    pub fn send(&self, status: StatusCode, headers: &HeaderMap) {
        let interims = &self.0.interims;
        let mut waiting = interims.lock();
        let in_place = waiting.open && !interims.unfinished.load(Relaxed);
        if !in_place || waiting.bytes.len() > MOST_BYTES {
            return;
        }
        let mut headers = headers.clone();
        headers::end_hop(&mut headers);
        let reason = status.canonical_reason().unwrap_or_default();
        let bytes = &mut waiting.bytes;
        bytes.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
        for (name, value) in &headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        interims.any.store(true, Relaxed);
        if let Some(connection) = &waiting.connection {
            connection.wake_by_ref();
        }
    }
}

impl Interims {
    /// The task that is to be woken to write them.
    pub(super) fn wakes(&self, connection: &Waker) {
        self.lock().connection = Some(connection.clone());
    }

    pub(super) fn something_written(&self) {
        self.unfinished.store(true, Relaxed);
    }

    pub(super) fn all_written(&self) {
        self.unfinished.store(false, Relaxed);
    }

    /// Those that are to be written before anything else.
    pub(super) fn take(&self) -> Option<BytesMut> {
        if !self.any.load(Relaxed) {
            return None;
        }
        self.any.store(false, Relaxed);
        Some(std::mem::take(&mut self.lock().bytes))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
