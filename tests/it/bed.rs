//! Tiers on real servers, ready to use.

use std::sync::Arc;
use std::time::Duration;

use oncegate::engine::{Engine, ExecuteError, Outcome, Request};
use oncegate::idempotency::key::KeyRules;
use oncegate::idempotency::{Identity, Key, Scope, Tenant};
use oncegate::store::durable::{self, DurableOptions, DurableTier};
use oncegate::store::fast::memory::Memory;
use oncegate::store::tiered::FastSettings;
use oncegate::store::{FastTier, Tiered, fast};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::servers::{self, DatabaseServer, Kind, Server};
use crate::support::{eventually, scratch, shared};

/// The durable backends that every promise is kept on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    MySql,
    MariaDb,
    Postgres,
    Sqlite,
}

/// A fresh database; the folder of an embedded one goes with it.
pub struct Fresh {
    pub database: Database,
    pub url: String,
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    /// None: its server could not be had on this machine.
    pub fn fresh(self) -> Option<Fresh> {
        let server = |url: String| Some(Fresh { database: self, url, _folder: None });
        match self {
            Self::MySql => {
                servers::require(Kind::MySql).then(|| shared::mysql().database()).and_then(server)
            }
            Self::MariaDb => servers::require(Kind::MariaDb)
                .then(|| shared::mariadb().database())
                .and_then(server),
            Self::Postgres => servers::require(Kind::Postgres)
                .then(|| shared::postgres().database())
                .and_then(server),
            Self::Sqlite => {
                let folder = scratch::folder("sqlite");
                let url = format!("sqlite://{}", folder.path().join("oncegate.db").display());
                Some(Fresh { database: self, url, _folder: Some(folder) })
            }
        }
    }
}

impl Fresh {
    /// A tier on this database; several of them are several instances.
    pub async fn open(&self) -> Arc<dyn DurableTier> {
        self.open_with(DurableOptions {
            patience: Duration::from_secs(10),
            ..DurableOptions::default()
        })
        .await
    }

    pub async fn open_with(&self, options: DurableOptions) -> Arc<dyn DurableTier> {
        let tier = durable::open(&self.url, &options).expect("the URL names a durable tier");
        tier.migrate().await.expect("a fresh database can be migrated");
        tier
    }
}

/// The fast backends that every promise is kept on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fast {
    Memory,
    Redis,
    /// One that refuses `SET … NX GET`.
    OldRedis,
    Cluster,
    Sentinel,
}

impl Fast {
    /// The tier as two instances have it, on servers shared by all tests. Instances share nothing
    /// but the server; of the one in memory there is only one. None: no server on this machine.
    pub async fn instances(self) -> Option<[Arc<dyn FastTier>; 2]> {
        let kind = match self {
            Self::Memory => {
                let tier = fast::open("memory:").expect("it needs no server");
                let tier = tier.expect("it is a tier");
                return Some([tier.clone(), tier]);
            }
            Self::OldRedis => Kind::OldRedis,
            Self::Redis | Self::Cluster | Self::Sentinel => Kind::Redis,
        };
        if !servers::require(kind) {
            return None;
        }
        // Starting a group of servers takes seconds.
        let url = tokio::task::spawn_blocking(move || match self {
            Self::Memory => unreachable!("it has no server"),
            Self::Redis => shared::redis().url(),
            Self::OldRedis => shared::old_redis().url(),
            Self::Cluster => shared::redis_cluster().url(),
            Self::Sentinel => shared::redis_sentinel().url(),
        });
        let url = url.await.expect("the servers start");
        Some([open_fast(&url).await, open_fast(&url).await])
    }
}

/// A fast tier that answers.
pub async fn open_fast(url: &str) -> Arc<dyn FastTier> {
    let tier = fast::open(url).expect("the URL names a fast tier");
    let tier = tier.expect("it is a tier");
    answers(&*tier).await;
    tier
}

/// Waits until the tier answers, again or for the first time.
pub async fn answers(tier: &dyn FastTier) {
    eventually("the fast tier answers", Duration::from_secs(30), async || {
        tier.ping().await.is_ok()
    })
    .await;
}

pub fn identity(key: &str) -> Identity {
    identity_of("tenant", "payment", key)
}

pub fn identity_of(tenant: &str, scope: &str, key: &str) -> Identity {
    let scope = Scope::new(scope).expect("the scope is valid");
    let key = Key::new(key, &KeyRules::any_text()).expect("the key is valid");
    Identity::new(Tenant::from_text(tenant), scope, key)
}

/// The pairs of tiers that the engine is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    MySqlRedis,
    MariaDbRedis,
    PostgresRedis,
    SqliteMemory,
    MySqlAlone,
}

/// Two tiers that any number of engines share.
pub struct Site {
    pub durable: Fresh,
    fast: FastUrl,
}

enum FastUrl {
    /// Each engine opens it for itself.
    Separate(String),
    /// The memory of one instance, which all engines of the test stand for.
    Memory(Arc<dyn FastTier>),
}

impl Pair {
    /// None: one of its servers could not be had on this machine.
    pub fn site(self) -> Option<Site> {
        let redis = || servers::require(Kind::Redis).then(|| shared::redis().url());
        let (database, fast) = match self {
            Self::MySqlRedis => (Database::MySql, FastUrl::Separate(redis()?)),
            Self::MariaDbRedis => (Database::MariaDb, FastUrl::Separate(redis()?)),
            Self::PostgresRedis => (Database::Postgres, FastUrl::Separate(redis()?)),
            Self::SqliteMemory => (Database::Sqlite, FastUrl::Memory(Arc::new(Memory::default()))),
            Self::MySqlAlone => (Database::MySql, FastUrl::Separate("none".to_owned())),
        };
        Some(Site { durable: database.fresh()?, fast })
    }
}

impl Site {
    /// One more engine on the same tiers.
    pub async fn engine(&self) -> Engine {
        let durable = self.durable.open().await;
        match &self.fast {
            FastUrl::Separate(url) => engine(durable, url),
            FastUrl::Memory(memory) => {
                Engine::new(Tiered::new(durable, Some(memory.clone()), FastSettings::default()))
            }
        }
    }
}

pub fn engine(durable: Arc<dyn DurableTier>, fast: &str) -> Engine {
    let fast = fast::open(fast).expect("the URL names a fast tier");
    Engine::new(Tiered::new(durable, fast, FastSettings::default()))
}

/// A key that no other test uses: the servers are shared.
pub fn fresh_identity() -> Identity {
    identity(&uuid::Uuid::new_v4().to_string())
}

/// An operation that counts how often it runs, and ends when it is let go.
#[derive(Clone)]
pub struct Operation {
    runs: Arc<watch::Sender<usize>>,
    let_go: Arc<watch::Sender<bool>>,
}

impl Operation {
    pub fn immediate() -> Self {
        let operation = Self::held();
        operation.let_go();
        operation
    }

    /// Does not end before `let_go`.
    pub fn held() -> Self {
        Self { runs: Arc::new(watch::Sender::new(0)), let_go: Arc::new(watch::Sender::new(false)) }
    }

    pub fn let_go(&self) {
        self.let_go.send_replace(true);
    }

    pub fn runs(&self) -> usize {
        *self.runs.borrow()
    }

    /// Resolves when it has begun that many times.
    pub async fn begun(&self, times: usize) {
        let mut runs = self.runs.subscribe();
        tokio::time::timeout(Duration::from_secs(30), runs.wait_for(|runs| *runs >= times))
            .await
            .expect("the operation begins in time")
            .expect("the operation is still there");
    }

    /// Its value is the number of the run.
    pub async fn run(self) -> Result<usize, String> {
        let mut run = 0;
        self.runs.send_modify(|runs| {
            *runs += 1;
            run = *runs;
        });
        let mut let_go = self.let_go.subscribe();
        let_go.wait_for(|let_go| *let_go).await.expect("the operation is still there");
        Ok(run)
    }
}

/// Runs the operation through an engine.
pub async fn execute(
    engine: &Engine,
    request: Request,
    operation: &Operation,
) -> Result<Outcome<usize>, ExecuteError<String>> {
    let operation = operation.clone();
    engine.execute(request, move || operation.run()).await
}

/// Runs the operation through an engine in a task of its own.
pub fn begin(
    engine: &Engine,
    request: &Request,
    operation: &Operation,
) -> JoinHandle<Result<Outcome<usize>, ExecuteError<String>>> {
    let (engine, request, operation) = (engine.clone(), request.clone(), operation.clone());
    tokio::spawn(async move { execute(&engine, request, &operation).await })
}
