//! What was wrong with a body that could not be read to its end.

use std::error::Error;
use std::io::{self, ErrorKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// Its sender does not speak HTTP well: sizes of chunks that are none, and the like.
    Malformed,
    /// Its sender went away, or fell silent.
    BrokeOff,
}

impl BodyFault {
    /// By the cause, however deeply wrapped. The HTTP library tells what it cannot parse apart
    /// from what ended too early by the kind of an I/O error.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut causes = std::iter::successors(Some(error), |error| (*error).source());
        let malformed = causes.any(|cause| {
            cause.downcast_ref::<io::Error>().is_some_and(|error| {
                matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData)
            })
        });
        if malformed { Self::Malformed } else { Self::BrokeOff }
    }
}
