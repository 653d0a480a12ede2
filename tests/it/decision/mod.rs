//! The decision API over HTTP, against real gateways: what a workflow sees.

mod locks;
mod requests;
mod walk;

use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::{Database, Fresh};
use crate::support::servers::{self, Kind, Server};
use crate::support::{Answer, Ask, Gateway, Launch, shared};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");
pub const SOON: Duration = Duration::from_secs(30);

/// Runs each promise on every pair of tiers, as `decision::…::mysql_and_redis::promise`.
macro_rules! on_three_pairs {
    ($($promise:ident),* $(,)?) => {
        on_three_pairs!(@ mysql_and_redis, MySql, $($promise),*);
        on_three_pairs!(@ postgres_and_redis, Postgres, $($promise),*);
        on_three_pairs!(@ sqlite_and_memory, Sqlite, $($promise),*);
    };
    (@ $module:ident, $database:ident, $($promise:ident),*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    if let Some(site) = crate::decision::Site::on(crate::bed::Database::$database) {
                        super::$promise(site).await;
                    }
                }
            )*
        }
    };
}
use on_three_pairs;

/// Tiers for any number of gateways.
pub struct Site {
    pub durable: Fresh,
    fast: String,
}

impl Site {
    /// None: one of its servers could not be had on this machine.
    pub fn on(database: Database) -> Option<Self> {
        let fast = match database {
            Database::Sqlite => "memory:".to_owned(),
            _ if !servers::require(Kind::Redis) => return None,
            _ => shared::redis().url(),
        };
        Some(Self { durable: database.fresh()?, fast })
    }

    pub async fn gateway(&self, toml: &str) -> Gateway {
        self.before("http://127.0.0.1:9", toml).await
    }

    /// One more gateway on the same tiers, before this upstream.
    pub async fn before(&self, upstream: &str, toml: &str) -> Gateway {
        let launch = Launch::serve(PROGRAM).flag("--upstream", upstream);
        let launch = launch.flag("--durable", &self.durable.url).flag("--fast", &self.fast);
        launch.config(toml).listening().await
    }
}

pub async fn post(gateway: &Gateway, path: &str, body: &Value) -> Answer {
    let ask = Ask::new(gateway.admin(), "POST", path);
    ask.header("Content-Type", "application/json").body(body.to_string()).send().await
}

pub fn fresh_key() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A workflow's view of one key.
pub struct Workflow {
    pub key: String,
}

impl Workflow {
    pub fn new() -> Self {
        Self { key: fresh_key() }
    }

    fn with(&self, more: Value) -> Value {
        let mut body = json!({ "scope": "order_process", "idempotency_key": self.key });
        let object = body.as_object_mut().expect("it is one");
        object.extend(more.as_object().expect("members").clone());
        body
    }

    pub async fn acquire(&self, at: &Gateway, more: Value) -> Value {
        let answer = post(at, "/acquire", &self.with(more)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub async fn complete(&self, at: &Gateway, more: Value) -> Answer {
        post(at, "/complete", &self.with(more)).await
    }

    pub async fn heartbeat(&self, at: &Gateway, more: Value) -> Answer {
        post(at, "/heartbeat", &self.with(more)).await
    }
}

#[track_caller]
pub fn assert_fenced(answer: &Answer) {
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert_eq!(answer.json()["code"], "fenced");
    assert_eq!(answer.header("Content-Type"), Some("application/problem+json"));
}
