//! The gateway as a proxy: what passes, what ends at it, and what never becomes two requests.

mod clients;
mod early_answers;
mod hops;
mod http2;
mod malformed;
mod messages;
mod streaming;
mod upgrades;

use super::{Site, Tiers, payments};
use crate::support::Gateway;

/// What passes does not depend on the tiers: those that need no server.
async fn site() -> (Site, Gateway) {
    with_routes(&payments("")).await
}

async fn with_routes(toml: &str) -> (Site, Gateway) {
    let site = Tiers::SqliteMemory.site().await.expect("it needs no server");
    let gateway = site.gateway(toml).await;
    (site, gateway)
}
