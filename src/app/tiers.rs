//! The two tiers, opened and heard from before anything is bound.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::config::Config;
use crate::store::durable::{self, DurableOptions, DurableTier};
use crate::store::{StoreError, Tiered, fast};

/// Servers that are started together come up together: a moment's patience saves a restart.
const DURABLE_PATIENCE: Duration = Duration::from_secs(10);
const FAST_PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(250);

/// The durable tier has to answer; without the fast one the gateway carries on.
pub async fn open(config: &Config) -> Result<Tiered, StoreError> {
    let durable = durable_tier(config)?;
    heard_from(DURABLE_PATIENCE, async || durable.ping().await).await?;
    if config.durable.migrate {
        durable.migrate().await?;
    }
    let deployment = durable.deployment().await.inspect_err(|_| {
        tracing::error!(
            "the tables are not up to date, it seems: `oncegate migrate` makes them so"
        );
    })?;
    let fast = fast::open_for(config.fast.url.expose(), &deployment)?;
    if let Some(fast) = &fast
        && let Err(error) = heard_from(FAST_PATIENCE, async || fast.ping().await).await
    {
        tracing::warn!(%error, "starting without the fast tier: the durable one does all the work");
    }
    Ok(Tiered::new(durable, fast, config.fast.settings()))
}

/// Brings the durable tier's tables up to date; returns which database it is.
pub async fn migrate(config: &Config) -> Result<&'static str, StoreError> {
    let durable = durable_tier(config)?;
    heard_from(DURABLE_PATIENCE, async || durable.ping().await).await?;
    durable.migrate().await?;
    durable.close().await;
    Ok(durable.name())
}

fn durable_tier(config: &Config) -> Result<Arc<dyn DurableTier>, StoreError> {
    let options = DurableOptions {
        max_connections: config.durable.max_connections,
        ..DurableOptions::default()
    };
    durable::open(config.durable.url.expose(), &options)
}

/// The last error when it does not answer in time.
async fn heard_from(
    patience: Duration,
    ping: impl AsyncFn() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let deadline = clock::after(patience);
    loop {
        match ping().await {
            Err(error) if error.is_transient() && clock::now() < deadline => {
                tracing::debug!(%error, "a tier does not answer yet");
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}
