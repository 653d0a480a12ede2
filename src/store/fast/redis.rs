//! Redis through fred: a single server, Sentinel or Cluster, whatever the URL says.
//!
//! ## Why a lock carries its owner's token
//! A client that reconnects may send a command twice, and `SET NX` then refuses what it has just
//! granted. Every lock names its owner, so a refusal that shows our own token is a grant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use fred::clients::{Client, SubscriberClient};
use fred::interfaces::{ClientLike, EventInterface, KeysInterface, LuaInterface, PubsubInterface};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig, UnresponsiveConfig,
};
use fred::types::scripts::Script;
use fred::types::{Builder, Expiration, SetOptions};
use tokio::sync::broadcast;

use super::listeners::Listeners;
use super::{FORGOTTEN_FOR, FastTier, Lock, Push, Replacement, Reserved, Value};
use crate::clock::millis;
use crate::idempotency::{IdentityDigest, Token};
use crate::store::{StoreError, codec};

const CONNECT_LIMIT: Duration = Duration::from_secs(1);
const SILENCE_LIMIT: Duration = Duration::from_secs(1);
const QUEUE: usize = 10_000;
const RECONNECT_EVERY_MS: u32 = 100;
const PUSHES: usize = 4096;
const FORGOTTEN_CHANNEL: &str = "oncegate:forgotten";

pub struct Redis {
    client: Client,
    subscriber: SubscriberClient,
    /// Off after the server has refused `NX` and `GET` together.
    set_nx_get: AtomicBool,
    scripts: Scripts,
    listeners: std::sync::Arc<Listeners>,
    pushes: broadcast::Sender<Push>,
}

struct Scripts {
    reserve: Script,
    replace: Script,
    renew: Script,
}

impl Redis {
    /// Connects in the background and keeps trying: the server need not be up.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let mut config = Config::from_url(url).map_err(|error| {
            StoreError::Misconfigured(format!(
                "the fast tier's URL cannot be used ({error}); it looks like \
                 redis://user:password@host:6379/0"
            ))
        })?;
        config.fail_fast = false;
        let mut builder = Builder::from_config(config);
        builder
            .set_policy(ReconnectPolicy::new_constant(0, RECONNECT_EVERY_MS))
            .set_performance_config(PerformanceConfig {
                default_command_timeout: SILENCE_LIMIT,
                ..PerformanceConfig::default()
            })
            .set_connection_config(ConnectionConfig {
                connection_timeout: CONNECT_LIMIT,
                internal_command_timeout: CONNECT_LIMIT,
                max_command_attempts: 1,
                max_command_buffer_len: QUEUE,
                unresponsive: UnresponsiveConfig {
                    max_timeout: Some(SILENCE_LIMIT),
                    interval: SILENCE_LIMIT / 4,
                },
                tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
                ..ConnectionConfig::default()
            });
        let unusable = |error| StoreError::Misconfigured(format!("the fast tier: {error}"));
        let client = builder.build().map_err(unusable)?;
        let subscriber = builder.build_subscriber_client().map_err(unusable)?;
        let (pushes, _) = broadcast::channel(PUSHES);
        client.connect();
        subscriber.connect();
        subscriber.manage_subscriptions();
        forward_messages(&subscriber, pushes.clone());
        subscribe_in_background(&subscriber, FORGOTTEN_CHANNEL.to_owned());
        Ok(Self {
            client,
            subscriber,
            set_nx_get: AtomicBool::new(true),
            scripts: Scripts {
                reserve: Script::from_lua(include_str!("scripts/reserve.lua")),
                replace: Script::from_lua(include_str!("scripts/replace.lua")),
                renew: Script::from_lua(include_str!("scripts/renew.lua")),
            },
            listeners: std::sync::Arc::default(),
            pushes,
        })
    }

    /// By its hash; with its text to a server that has not seen it.
    async fn run<T: fred::types::FromValue>(
        &self,
        script: &Script,
        key: String,
        arguments: Vec<fred::types::Value>,
    ) -> Result<T, fred::error::Error> {
        let keys = vec![key];
        match script.evalsha(&self.client, keys.clone(), arguments.clone()).await {
            Err(error) if error.details().starts_with("NOSCRIPT") => {
                let text = script.lua().cloned().unwrap_or_default();
                self.client.eval(text, keys, arguments).await
            }
            done => done,
        }
    }

    async fn set_nx_get(
        &self,
        key: String,
        lock: Bytes,
        ttl: Duration,
    ) -> Result<Option<Bytes>, fred::error::Error> {
        if self.set_nx_get.load(Ordering::Relaxed) {
            let expire = Some(Expiration::PX(millis(ttl)));
            let options = Some(SetOptions::NX);
            match self.client.set(key.clone(), lock.clone(), expire, options, true).await {
                Err(error) if is_refused(&error) => self.set_nx_get.store(false, Ordering::Relaxed),
                done => return done,
            }
        }
        self.run(&self.scripts.reserve, key, vec![lock.into(), millis(ttl).into()]).await
    }
}

#[async_trait]
impl FastTier for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.client.ping::<()>(None).await.map_err(unavailable)
    }

    async fn reserve(
        &self,
        identity: &IdentityDigest,
        lock: Lock,
        ttl: Duration,
    ) -> Result<Reserved, StoreError> {
        let bytes = codec::encode(&Value::Locked(lock)).into();
        match self.set_nx_get(key(identity), bytes, ttl).await.map_err(unavailable)? {
            None => Ok(Reserved::Ours),
            Some(there) => match codec::decode(&there) {
                Some(Value::Locked(there)) if there.token == lock.token => Ok(Reserved::Ours),
                Some(there) => Ok(Reserved::Taken(there)),
                // No news for us; the durable tier decides.
                None => Ok(Reserved::Ours),
            },
        }
    }

    async fn replace(
        &self,
        identity: &IdentityDigest,
        owner: Token,
        by: Replacement,
    ) -> Result<(), StoreError> {
        let (value, ttl) = match &by {
            Replacement::Nothing => (Vec::new(), Duration::ZERO),
            Replacement::With(value, ttl) => (codec::encode(value), *ttl),
        };
        let arguments = vec![
            Bytes::copy_from_slice(&codec::owned_by(owner)).into(),
            Bytes::from(value).into(),
            millis(ttl).max(1).into(),
            channel(identity).into(),
            Bytes::copy_from_slice(identity).into(),
        ];
        self.run(&self.scripts.replace, key(identity), arguments).await.map_err(unavailable)
    }

    async fn renew(
        &self,
        locks: &[(IdentityDigest, Token)],
        ttl: Duration,
    ) -> Result<(), StoreError> {
        // Sent together, answered together: one round trip for all of them.
        let renewals = locks.iter().map(|(identity, owner)| {
            let arguments =
                vec![Bytes::copy_from_slice(&codec::owned_by(*owner)).into(), millis(ttl).into()];
            self.run::<()>(&self.scripts.renew, key(identity), arguments)
        });
        futures_util::future::try_join_all(renewals).await.map(drop).map_err(unavailable)
    }

    async fn forget(&self, identity: &IdentityDigest) -> Result<(), StoreError> {
        let mark = Bytes::from(codec::encode(&Value::Forgotten));
        let expire = Some(Expiration::PX(millis(FORGOTTEN_FOR)));
        let mark = self.client.set::<(), _, _>(key(identity), mark, expire, None, false);
        let tell = self.client.publish::<(), _, _>(FORGOTTEN_CHANNEL, &identity[..]);
        futures_util::future::try_join(mark, tell).await.map(drop).map_err(unavailable)
    }

    async fn listen(&self, identity: &IdentityDigest) -> Result<(), StoreError> {
        self.listeners.add(identity);
        self.subscriber.subscribe(channel(identity)).await.map_err(unavailable)
    }

    fn unlisten(&self, identity: &IdentityDigest) {
        if !self.listeners.remove(identity) {
            return;
        }
        let (subscriber, listeners, identity) =
            (self.subscriber.clone(), self.listeners.clone(), *identity);
        tokio::spawn(async move {
            let _ = subscriber.unsubscribe(channel(&identity)).await;
            // Somebody may have begun to listen while this was on its way.
            if listeners.has(&identity) {
                let _ = subscriber.subscribe(channel(&identity)).await;
            }
        });
    }

    fn pushes(&self) -> broadcast::Receiver<Push> {
        self.pushes.subscribe()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let (client, subscriber) = (self.client.clone(), self.subscriber.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::join!(client.quit(), subscriber.quit());
            });
        }
    }
}

fn forward_messages(subscriber: &SubscriberClient, pushes: broadcast::Sender<Push>) {
    let mut messages = subscriber.message_rx();
    tokio::spawn(async move {
        loop {
            let message = match messages.recv().await {
                Ok(message) => message,
                // Whoever waited for a missed one polls.
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
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
    });
}

fn subscribe_in_background(subscriber: &SubscriberClient, channel: String) {
    let subscriber = subscriber.clone();
    tokio::spawn(async move {
        while subscriber.subscribe(channel.clone()).await.is_err() {
            tokio::time::sleep(CONNECT_LIMIT).await;
        }
    });
}

fn key(identity: &IdentityDigest) -> String {
    format!("oncegate:{}", URL_SAFE_NO_PAD.encode(identity))
}

fn channel(identity: &IdentityDigest) -> String {
    format!("oncegate:changed:{}", URL_SAFE_NO_PAD.encode(identity))
}

/// Servers before 7 call `NX` with `GET` a syntax error.
fn is_refused(error: &fred::error::Error) -> bool {
    error.details().to_ascii_lowercase().contains("syntax error")
}

fn unavailable(error: fred::error::Error) -> StoreError {
    StoreError::unavailable("redis", error)
}
