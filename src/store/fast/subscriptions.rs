//! What this process hears from Redis: what was forgotten, and what becomes of the identities that
//! somebody here listens to.
//!
//! The listeners are the truth and the server's subscriptions follow: all are made again after a
//! reconnect, and every few seconds, which also finds out about a connection that died silently.

use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike, ClusterInterface, EventInterface, PubsubInterface};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, broadcast};

use super::Push;
use super::listeners::Listeners;
use crate::idempotency::IdentityDigest;

pub const FORGOTTEN_CHANNEL: &str = "oncegate:forgotten";
const PUSHES: usize = 4096;
const RENEW_EVERY: Duration = Duration::from_secs(5);
const RETRY_EVERY: Duration = Duration::from_millis(200);

pub struct Subscriptions {
    client: Client,
    listeners: Listeners,
    /// Held from looking at the listeners until the client has sent what follows from it.
    order: Mutex<()>,
    pushes: broadcast::Sender<Push>,
}

impl Subscriptions {
    /// Of a client that nobody else uses and that is about to connect.
    pub fn new(client: Client) -> Arc<Self> {
        let subscriptions = Arc::new(Self {
            client,
            listeners: Listeners::default(),
            order: Mutex::default(),
            pushes: broadcast::channel(PUSHES).0,
        });
        let messages = subscriptions.client.message_rx();
        tokio::spawn(forward(messages, subscriptions.pushes.clone()));
        let reconnects = subscriptions.client.reconnect_rx();
        tokio::spawn(keep(Arc::downgrade(&subscriptions), reconnects));
        subscriptions
    }

    pub fn pushes(&self) -> broadcast::Receiver<Push> {
        self.pushes.subscribe()
    }

    pub fn add(&self, identity: &IdentityDigest) {
        self.listeners.add(identity);
    }

    /// Returns when the server knows of it.
    pub async fn subscribe(&self, identity: &IdentityDigest) -> Result<(), Error> {
        {
            let _order = self.order.lock().await;
            self.client.subscribe(channel(identity)).await?;
        }
        self.confirm().await
    }

    pub fn remove(self: &Arc<Self>, identity: &IdentityDigest) {
        if !self.listeners.remove(identity) {
            return;
        }
        let (this, identity) = (self.clone(), *identity);
        tokio::spawn(async move {
            let _order = this.order.lock().await;
            // Somebody may have begun to listen in the meantime.
            if !this.listeners.has(&identity) {
                // A lost connection has lost its subscriptions as well.
                let _ = this.client.unsubscribe(channel(&identity)).await;
            }
        });
    }

    pub async fn quit(&self) {
        let _ = self.client.quit().await;
    }

    async fn subscribe_all(&self) -> Result<(), Error> {
        {
            let _order = self.order.lock().await;
            let mut channels = vec![FORGOTTEN_CHANNEL.to_owned()];
            channels.extend(self.listeners.all().iter().map(channel));
            self.client.subscribe(channels).await?;
        }
        self.confirm().await
    }

    /// The client does not wait for the answer to a subscription; one to a ping comes after it.
    async fn confirm(&self) -> Result<(), Error> {
        // In a cluster the client sends all subscriptions to the node that has its own id's slot.
        let slot = fred::util::redis_keyslot(self.client.id().as_bytes());
        let cluster = self.client.cached_cluster_state();
        match cluster.as_ref().and_then(|nodes| nodes.get_server(slot)) {
            Some(node) => self.client.with_cluster_node(node).ping(None).await,
            None => self.client.ping(None).await,
        }
    }
}

async fn keep(
    subscriptions: Weak<Subscriptions>,
    mut reconnects: broadcast::Receiver<fred::types::config::Server>,
) {
    while let Some(subscriptions) = subscriptions.upgrade() {
        let wait = match subscriptions.subscribe_all().await {
            Ok(()) => RENEW_EVERY,
            Err(_) => RETRY_EVERY,
        };
        drop(subscriptions);
        if let Ok(Err(RecvError::Closed)) = tokio::time::timeout(wait, reconnects.recv()).await {
            return;
        }
    }
}

async fn forward(
    mut messages: broadcast::Receiver<fred::types::Message>,
    pushes: broadcast::Sender<Push>,
) {
    loop {
        let message = match messages.recv().await {
            Ok(message) => message,
            // Whoever waited for a missed one polls.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Some(identity) = message.value.as_bytes().and_then(|b| b.try_into().ok()) else {
            continue;
        };
        let push = match &*message.channel == FORGOTTEN_CHANNEL {
            true => Push::Forgotten(identity),
            false => Push::Changed(identity),
        };
        let _ = pushes.send(push);
    }
}

pub fn channel(identity: &IdentityDigest) -> String {
    format!("oncegate:changed:{}", URL_SAFE_NO_PAD.encode(identity))
}
