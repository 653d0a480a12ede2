//! The two tiers: where they are and how they are used. Whether they answer is found out later.

use std::time::Duration;

use crate::store::tiered::FastSettings;

use super::mistakes::Wrong;
use super::reader::Reader;
use super::secret::SecretUrl;
use super::sections::{DAY, SECOND, TICK, scheme_of};
use super::setting::words;
use super::units::Size;

const DURABLE_SCHEMES: [&str; 5] = ["mysql", "mariadb", "postgres", "postgresql", "sqlite"];
const REDIS_SCHEMES: [&str; 6] =
    ["redis", "rediss", "redis-cluster", "rediss-cluster", "redis-sentinel", "rediss-sentinel"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    pub url: SecretUrl,
    pub max_connections: u32,
    pub when_down: WhenDown,
    pub migrate: bool,
}

/// What becomes of a request while the durable tier is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenDown {
    Reject,
    /// Forwarded unprotected.
    Bypass,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fast {
    pub url: SecretUrl,
    pub lock_ttl: Duration,
    pub replay_ttl: Duration,
    pub replay_max_bytes: usize,
}

words!(WhenDown, "\"reject\" or \"bypass\"",
    "reject" => WhenDown::Reject, "bypass" => WhenDown::Bypass);

impl Fast {
    pub fn settings(&self) -> FastSettings {
        FastSettings {
            lock_ttl: self.lock_ttl,
            replay_ttl: self.replay_ttl,
            replay_max_bytes: self.replay_max_bytes,
        }
    }
}

impl Durable {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("durable");
        let durable = Self {
            url: section.get_if("url", SecretUrl::known("sqlite://oncegate.db"), |url| {
                if url.is_in_memory() {
                    let what = "a database in memory keeps nothing: after a restart each key would \
                                be new and run again. It is not supported";
                    let hint = "name a file, such as sqlite://oncegate.db, or use mysql:// or \
                                postgres://";
                    return Err(Wrong::new(what).hint(hint));
                }
                scheme_of(url, &DURABLE_SCHEMES, "mysql://, postgres:// or sqlite://")
            }),
            max_connections: section.within("max_connections", 32, (1, 10_000)),
            when_down: section.get("when_down", WhenDown::Reject),
            migrate: section.get("migrate", true),
        };
        section.done(&[]);
        durable
    }
}

impl Fast {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("fast");
        let usual = FastSettings::default();
        let fast = Self {
            url: section.get_if("url", SecretUrl::known("memory:"), |url| {
                let expected = "redis://, rediss://, redis-cluster://, redis-sentinel://, memory: \
                                or none";
                match url.expose() {
                    "memory:" | "memory" | "none" => Ok(()),
                    _ => scheme_of(url, &REDIS_SCHEMES, expected),
                }
            }),
            lock_ttl: section.within("lock_ttl", usual.lock_ttl, (SECOND, 60 * SECOND)),
            replay_ttl: section.within("replay_ttl", usual.replay_ttl, (TICK, 365 * DAY)),
            replay_max_bytes: section.get("replay_max_bytes", Size(usual.replay_max_bytes)).0,
        };
        section.done(&[]);
        fast
    }
}
