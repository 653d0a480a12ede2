//! Tiers on real servers, ready to use.

use std::sync::Arc;
use std::time::Duration;

use oncegate::idempotency::key::KeyRules;
use oncegate::idempotency::{Identity, Key, Scope, Tenant};
use oncegate::store::durable::{self, DurableOptions, DurableTier};

use crate::support::servers::{self, DatabaseServer, Kind};
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
    pub const ALL: [Self; 4] = [Self::MySql, Self::MariaDb, Self::Postgres, Self::Sqlite];

    /// None: its server could not be had on this machine.
    pub fn fresh(self) -> Option<Fresh> {
        let server = |url: String| Some(Fresh { url, _folder: None });
        match self {
            Self::MySql => servers::require(Kind::MySql)
                .then(|| shared::mysql().database())
                .and_then(server),
            Self::MariaDb => servers::require(Kind::MariaDb)
                .then(|| shared::mariadb().database())
                .and_then(server),
            Self::Postgres => servers::require(Kind::Postgres)
                .then(|| shared::postgres().database())
                .and_then(server),
            Self::Sqlite => {
                let folder = scratch::folder("sqlite");
                let url = format!("sqlite://{}", folder.path().join("oncegate.db").display());
                Some(Fresh {
                    url,
                    _folder: Some(folder),
                })
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
        tier.migrate()
            .await
            .expect("a fresh database can be migrated");
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
