//! An answer's body on its way out, which says whom it waits for.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::pulse::InFlight;
use crate::http::{Body, BoxError};

pub(super) struct Answer {
    body: Body,
    in_flight: InFlight,
}

impl Answer {
    pub(super) fn new(body: Body, mut in_flight: InFlight) -> Self {
        in_flight.waits_for_the_client();
        Self { body, in_flight }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Pending => self.in_flight.waits_for_us(),
            Poll::Ready(_) => {
                self.in_flight.waits_for_the_client();
                self.in_flight.pulse().frame_taken();
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
