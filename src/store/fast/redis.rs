//! Redis through fred: a single server, Sentinel or Cluster, whatever the URL says.
//!
//! ## Why a lock carries its owner's token
//! A client that reconnects may send a command twice, and `SET NX` then refuses what it has just
//! granted. Every lock names its owner, so a refusal that shows our own token is a grant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use fred::clients::Client;
use fred::error::ErrorKind;
use fred::interfaces::{ClientLike, KeysInterface, LuaInterface, PubsubInterface};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig, UnresponsiveConfig,
};
use fred::types::scripts::Script;
use fred::types::{Builder, Expiration, SetOptions};
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

use super::subscriptions::{FORGOTTEN_CHANNEL, Subscriptions, channel};
use super::{FORGOTTEN_FOR, FastTier, Lock, Push, Replacement, Reserved, Vacancy, Value};
use crate::clock::millis;
use crate::idempotency::{IdentityDigest, Token};
use crate::store::{StoreError, codec};

/// Shorter than the breaker's: a command that is given up here is not sent later, one that is only
/// dropped by its caller is.
const COMMAND_LIMIT: Duration = Duration::from_millis(200);
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// A connection that is silent for so long after a command is replaced. The client counts from its
/// last command, so whoever asks again and again has to leave more than this in between.
const SILENCE_LIMIT: Duration = COMMAND_LIMIT;
const QUEUE: usize = 10_000;
const RECONNECT_EVERY_MS: u32 = 100;
/// The messages that may arrive while nobody is looking.
const MESSAGES: usize = 4096;

pub struct Redis {
    client: Client,
    /// What every key begins with.
    prefix: String,
    subscriptions: Arc<Subscriptions>,
    /// Off after the server has refused `NX` and `GET` together.
    set_nx_get: AtomicBool,
    scripts: Scripts,
}

struct Scripts {
    reserve: Script,
    replace: Script,
    renew: Script,
}

impl Redis {
    /// Connects in the background and keeps trying: the server need not be up.
    pub fn open(url: &str, deployment: &str) -> Result<Self, StoreError> {
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
                default_command_timeout: COMMAND_LIMIT,
                broadcast_channel_capacity: MESSAGES,
                ..PerformanceConfig::default()
            })
            .set_connection_config(ConnectionConfig {
                connection_timeout: CONNECT_LIMIT,
                internal_command_timeout: CONNECT_LIMIT,
                max_command_attempts: 1,
                // Following ASK the client takes the next answer for the one to its ASKING, be it
                // whose it may. Refused, MOVED still makes it look for the new owners.
                max_redirections: 0,
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
        let subscriber = builder.build().map_err(unusable)?;
        keep_connected(&client);
        keep_connected(&subscriber);
        let separator = if deployment.is_empty() { "" } else { ":" };
        Ok(Self {
            client,
            prefix: format!("oncegate:{deployment}{separator}"),
            subscriptions: Subscriptions::new(subscriber),
            set_nx_get: AtomicBool::new(true),
            scripts: Scripts {
                reserve: Script::from_lua(include_str!("scripts/reserve.lua")),
                replace: Script::from_lua(include_str!("scripts/replace.lua")),
                renew: Script::from_lua(include_str!("scripts/renew.lua")),
            },
        })
    }

    fn key(&self, identity: &IdentityDigest) -> String {
        format!("{}{}", self.prefix, URL_SAFE_NO_PAD.encode(identity))
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
        self.client.ping::<()>(None).await.map_err(failed)
    }

    async fn reserve(
        &self,
        identity: &IdentityDigest,
        lock: Lock,
        ttl: Duration,
    ) -> Result<Reserved, StoreError> {
        let bytes = codec::encode(&Value::Locked(lock)).into();
        match self.set_nx_get(self.key(identity), bytes, ttl).await.map_err(failed)? {
            None => Ok(Reserved::Ours),
            Some(there) => match codec::decode(&there) {
                Some(Value::Locked(there)) if there.token == lock.token => Ok(Reserved::Ours),
                Some(there) => Ok(Reserved::Taken(there)),
                // No news for us; the durable tier decides.
                None => Ok(Reserved::Ours),
            },
        }
    }

    async fn look(&self, identity: &IdentityDigest) -> Result<Option<Value>, StoreError> {
        let there: Option<Bytes> = self.client.get(self.key(identity)).await.map_err(failed)?;
        Ok(there.as_ref().and_then(codec::decode))
    }

    async fn replace(
        &self,
        identity: &IdentityDigest,
        owner: Token,
        by: Replacement,
        vacancy: Vacancy,
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
            i64::from(vacancy == Vacancy::Fill).into(),
        ];
        self.run(&self.scripts.replace, self.key(identity), arguments).await.map_err(failed)
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
            self.run::<()>(&self.scripts.renew, self.key(identity), arguments)
        });
        futures_util::future::try_join_all(renewals).await.map(drop).map_err(failed)
    }

    async fn forget(&self, identity: &IdentityDigest) -> Result<(), StoreError> {
        let mark = Bytes::from(codec::encode(&Value::Forgotten));
        let expire = Some(Expiration::PX(millis(FORGOTTEN_FOR)));
        self.client
            .set::<(), _, _>(self.key(identity), mark, expire, None, false)
            .await
            .map_err(failed)?;
        // Only now: whoever hears of it may look at once.
        self.client.publish(FORGOTTEN_CHANNEL, &identity[..]).await.map_err(failed)
    }

    fn listen<'a>(&'a self, identity: &'a IdentityDigest) -> BoxFuture<'a, Result<(), StoreError>> {
        self.subscriptions.add(identity);
        Box::pin(async {
            let subscribed = self.subscriptions.subscribe(identity).await;
            subscribed.map_err(failed)
        })
    }

    fn unlisten(&self, identity: &IdentityDigest) {
        self.subscriptions.remove(identity);
    }

    fn pushes(&self) -> broadcast::Receiver<Push> {
        self.subscriptions.pushes()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let (client, subscriptions) = (self.client.clone(), self.subscriptions.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::join!(client.quit(), subscriptions.quit());
            });
        }
    }
}

/// The client reconnects by itself, but gives up altogether on an error that it cannot place.
fn keep_connected(client: &Client) {
    let client = client.clone();
    tokio::spawn(async move {
        loop {
            match client.connect().await {
                Ok(Ok(())) => return,
                Ok(Err(error)) if *error.kind() == ErrorKind::Canceled => return,
                Ok(Err(_)) | Err(_) => tokio::time::sleep(CONNECT_LIMIT).await,
            }
        }
    });
}

/// Servers before 7 call `NX` with `GET` a syntax error.
fn is_refused(error: &fred::error::Error) -> bool {
    error.details().to_ascii_lowercase().contains("syntax error")
}

/// What the server answered is no outage, whatever it says: it is there for everybody else.
fn failed(error: fred::error::Error) -> StoreError {
    let answered = match error.kind() {
        ErrorKind::InvalidArgument | ErrorKind::InvalidCommand => true,
        // A redirection: this slot is on its way to another node, the others are where they were.
        ErrorKind::Routing => true,
        // The server's errors begin with a word in capitals, the client's own do not.
        ErrorKind::Unknown => {
            let word = error.details().split(' ').next().unwrap_or_default();
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase())
        }
        _ => false,
    };
    match answered {
        true => StoreError::Rejected { tier: "redis", reason: error.to_string() },
        false => StoreError::unavailable("redis", error),
    }
}
