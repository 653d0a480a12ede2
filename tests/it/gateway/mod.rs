//! The gateway from the outside: a real process between a client that sends exact bytes and an
//! upstream that counts. Everything here is said by the contract; nothing looks inside.

mod faults;
mod lifecycle;
mod policies;
mod proxy;
mod table;
mod two_gateways;

use std::time::Duration;

use crate::bed::{Database, Fresh};
use crate::support::servers::{self, Kind, Server};
use crate::support::{Answer, Gateway, Launch, Upstream, shared};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");
pub const SOON: Duration = Duration::from_secs(30);

/// Long enough to say that nothing comes, short enough to say it often.
pub const A_MOMENT: Duration = Duration::from_millis(300);

/// Runs each promise on both pairs of tiers, as `gateway::…::mysql_and_redis::promise`.
macro_rules! on_both_pairs {
    ($($promise:ident),* $(,)?) => {
        on_both_pairs!(@ mysql_and_redis, MySqlRedis, $($promise),*);
        on_both_pairs!(@ sqlite_and_memory, SqliteMemory, $($promise),*);
    };
    (@ $module:ident, $pair:ident, $($promise:ident),*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    if let Some(site) = crate::gateway::Tiers::$pair.site().await {
                        super::$promise(site).await;
                    }
                }
            )*
        }
    };
}
pub(crate) use on_both_pairs;

/// The pairs of tiers that the gateway is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tiers {
    MySqlRedis,
    SqliteMemory,
}

/// An upstream, and tiers for the gateways before it.
pub struct Site {
    pub upstream: Upstream,
    pub durable: Fresh,
    fast: String,
}

impl Tiers {
    /// None: one of its servers could not be had on this machine.
    pub async fn site(self) -> Option<Site> {
        let (database, fast) = match self {
            Self::MySqlRedis if !servers::require(Kind::Redis) => return None,
            Self::MySqlRedis => (Database::MySql, shared::redis().url()),
            Self::SqliteMemory => (Database::Sqlite, "memory:".to_owned()),
        };
        Some(Site { durable: database.fresh()?, fast, upstream: Upstream::start().await })
    }
}

impl Site {
    fn launch(&self) -> Launch {
        launch(&self.upstream, &self.durable.url, &self.fast)
    }

    /// One more gateway on the same tiers, with this file.
    pub async fn gateway(&self, toml: &str) -> Gateway {
        self.launch().config(toml).listening().await
    }
}

pub fn launch(upstream: &Upstream, durable: &str, fast: &str) -> Launch {
    let launch = Launch::serve(PROGRAM).flag("--upstream", &upstream.url());
    launch.flag("--durable", durable).flag("--fast", fast)
}

/// A route that takes payments, with these keys of its own.
fn payments(keys: &str) -> String {
    format!(
        "[[routes]]\npath = '/pay/{{*rest}}'\nmethods = ['POST', 'PATCH']\nscope = 'payment'\n\
         key = 'required'\n{keys}\n"
    )
}

/// A key that no other test uses: the servers are shared.
pub fn fresh_key() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// What a refusal says about trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    No,
    Yes,
    /// With `Retry-After`.
    After,
    /// The contract leaves it open.
    Open,
}

/// It is exactly this refusal: the header and every member of the document.
#[track_caller]
pub fn assert_problem(answer: &Answer, status: u16, code: &str, retry: Retry) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.all("Idempotency-Status"), [code], "{answer:?}");
    assert_eq!(answer.all("Content-Type"), ["application/problem+json"], "{answer:?}");
    let document = answer.json();
    assert_eq!(document["type"], format!("urn:oncegate:problem:{code}"), "{document}");
    assert_eq!(document["status"], status, "{document}");
    assert_eq!(document["code"], code, "{document}");
    for member in ["title", "detail"] {
        let text = document[member].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{member}: {document}");
    }
    let retryable = document["retryable"].as_bool();
    assert!(retryable.is_some(), "{document}");
    let pause = answer.header("Retry-After");
    match retry {
        Retry::No => assert_eq!((retryable, pause), (Some(false), None), "{document}"),
        Retry::Yes => assert_eq!(retryable, Some(true), "{document}"),
        Retry::After => {
            assert_eq!(retryable, Some(true), "{document}");
            assert!(retry_after(answer) >= 1, "{answer:?}");
        }
        Retry::Open => {}
    }
}

/// The seconds that `Retry-After` names.
#[track_caller]
pub fn retry_after(answer: &Answer) -> u64 {
    let pause = answer.header("Retry-After").unwrap_or_else(|| panic!("no pause: {answer:?}"));
    pause.parse().unwrap_or_else(|e| panic!("{pause}: {e}"))
}

#[track_caller]
pub fn assert_executed(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.all("Idempotency-Status"), ["executed"], "{answer:?}");
    assert_ne!(answer.header("Idempotency-Replayed"), Some("true"), "{answer:?}");
}

#[track_caller]
pub fn assert_replayed(answer: &Answer, first: &Answer) {
    assert_eq!(answer.status, first.status, "{answer:?}");
    assert_eq!(answer.all("Idempotency-Status"), ["replayed"], "{answer:?}");
    assert_eq!(answer.all("Idempotency-Replayed"), ["true"], "{answer:?}");
    assert_eq!(answer.body, first.body, "{answer:?}");
    assert_eq!(answer.trailers, [], "{answer:?}");
}

/// The headers of an answer but those about this exchange, sorted; the order of repeated ones is
/// kept.
fn lasting_headers(answer: &Answer) -> Vec<(String, String)> {
    let passing = ["idempotency-status", "idempotency-replayed", "set-cookie", "connection"];
    let framing = ["content-length", "transfer-encoding", "keep-alive"];
    let mut headers: Vec<_> =
        answer.headers.iter().map(|(name, v)| (name.to_ascii_lowercase(), v.clone())).collect();
    headers.retain(|(name, _)| !passing.contains(&name.as_str()));
    headers.retain(|(name, _)| !framing.contains(&name.as_str()));
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    headers
}
