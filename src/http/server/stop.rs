//! How a server is asked to stop: softly first, hard when that takes too long.

use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub struct Stop {
    hard: CancellationToken,
    /// A child of `hard`: who is to end now is not to accept anything more either.
    soft: CancellationToken,
}

impl Stop {
    pub fn new() -> Self {
        let hard = CancellationToken::new();
        Self { soft: hard.child_token(), hard }
    }

    /// Accept no more, finish the requests in flight.
    pub fn softly(&self) {
        self.soft.cancel();
    }

    /// End now.
    pub fn hard(&self) {
        self.hard.cancel();
    }

    pub fn is_soft(&self) -> bool {
        self.soft.is_cancelled()
    }

    pub fn is_hard(&self) -> bool {
        self.hard.is_cancelled()
    }

    /// Once a stop of either kind is asked for.
    pub async fn soft_asked(&self) {
        self.soft.cancelled().await;
    }

    pub async fn hard_asked(&self) {
        self.hard.cancelled().await;
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}
