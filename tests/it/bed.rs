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

use crate::support::servers::{self, DatabaseServer, Kind, Server};
use crate::support::{scratch, shared};

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
    pub url: String,
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    /// None: its server could not be had on this machine.
    pub fn fresh(self) -> Option<Fresh> {
        let server = |url: String| Some(Fresh { url, _folder: None });
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
                Some(Fresh { url, _folder: Some(folder) })
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
