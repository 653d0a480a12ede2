//! Connections that left HTTP behind: bytes both ways until one side ends.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::limits::Slot;

/// Begins when both sides have switched. It is not waited for when the gateway stops: nobody knows
/// when such a conversation is over.
pub fn start(client: OnUpgrade, upstream: OnUpgrade, slot: Slot) {
    tokio::spawn(async move {
        let _slot = slot;
        let (client, upstream) = match tokio::try_join!(client, upstream) {
            Ok(both) => both,
            Err(error) => {
                tracing::debug!(%error, "a connection did not switch protocols");
                return;
            }
        };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        // How it ends is between the two.
        let _ = copy_bidirectional(&mut client, &mut upstream).await;
    });
}
