//! Lists of records for people: which ones, in which order, and how much is read for it.
//!
//! A key is looked up in the unique index. An open state (PROCESSING, UNKNOWN, FAILED) is read from
//! its index, what has stood longest first. Everything else walks the primary key from the newest
//! record down, a bounded number of rows at a time: a page may be short, even empty, and still name
//! where the next one begins.

use std::time::Duration;

use serde::Deserialize;
use uuid::Uuid;

use super::sizes::lasting;
use super::statements::{Dialect, OPEN, TABLE};
use crate::clock::Timestamp;
use crate::idempotency::{Found, RecordId};

/// How many rows one step down the primary key looks at, and how many steps a page may take.
pub const WINDOW: u32 = 2_000;
pub const WINDOWS: usize = 10;

/// Which records. What is None does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub state: Option<Kind>,
    pub tenant: Option<String>,
    pub scope: Option<String>,
    pub key: Option<String>,
    /// Unchanged for at least that long.
    pub older_than: Duration,
    pub limit: u32,
    pub after: Option<Position>,
}

/// A state without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    Processing,
    Succeeded,
    Failed,
    Unknown,
}

/// Where a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Newest first: older than this one.
    Below(RecordId),
    /// What has stood longest first: behind this one.
    Behind(Timestamp, RecordId),
}

#[derive(Debug)]
pub struct Page {
    /// Without the headers and bodies of their answers.
    pub found: Vec<Found>,
    pub next: Option<Position>,
}

/// How the rows are found.
#[derive(Clone, Copy)]
pub enum Walk {
    Key { below: Uuid },
    State { behind: (i64, Uuid) },
    Newest { below: Uuid, down_to: Uuid },
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Processing, Self::Succeeded, Self::Failed, Self::Unknown];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "PROCESSING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// In any case of letters.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }
}

impl Listing {
    /// What has stood longest comes first; otherwise the newest does.
    pub fn is_longest_first(&self) -> bool {
        self.key.is_none() && self.state.is_some_and(|state| state != Kind::Succeeded)
    }

    pub fn below(&self) -> Uuid {
        match self.after {
            Some(Position::Below(id)) => id.0,
            _ => Uuid::max(),
        }
    }

    pub fn behind(&self) -> (i64, Uuid) {
        match self.after {
            Some(Position::Behind(at, id)) => (at.as_millis(), id.0),
            _ => (i64::MIN, Uuid::nil()),
        }
    }

    /// One more than it holds was asked for, to see whether another one follows.
    pub fn page(&self, mut found: Vec<Found>, unless_full: Option<Position>) -> Page {
        let limit = self.limit.max(1) as usize;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = if more { found.last().map(|last| self.position(last)) } else { unless_full };
        Page { found, next }
    }

    fn position(&self, found: &Found) -> Position {
        let record = &found.record;
        match self.is_longest_first() {
            true => Position::Behind(record.updated_at, record.id),
            false => Position::Below(record.id),
        }
    }
}

/// The next higher id: windows end above the row that they leave out.
pub fn after(id: Uuid) -> Uuid {
    Uuid::from_u128(id.as_u128().saturating_add(1))
}

pub struct Texts {
    pub by_key: &'static str,
    pub by_state: &'static str,
    pub newest: &'static str,
    pub window: &'static str,
    pub audit_of: &'static str,
}

/// A filter that is not asked for is switched off by its first parameter. An expired record is absent.
const FILTERS: &str = "(? = 1 OR state = ?) AND (? = 1 OR tenant = ?) AND (? = 1 OR scope = ?) \
     AND updated_at <= {now} - ? AND (expires_at IS NULL OR expires_at > {now})";

impl Texts {
    pub fn new(dialect: &Dialect) -> Self {
        // A page of answers could be a gigabyte.
        let columns = dialect.columns().replace(
            "response_headers, response_body",
            "NULL AS response_headers, NULL AS response_body",
        );
        let one = |text: String| lasting(dialect.finish(&text));
        let select = format!("SELECT {columns} FROM {TABLE}");
        Self {
            by_key: one(format!(
                "{select} WHERE idem_key = ? AND {FILTERS} AND ? > id ORDER BY id DESC LIMIT ?"
            )),
            by_state: one(format!(
                "{select} WHERE state = ? AND {OPEN} AND {FILTERS} \
                 AND (updated_at > ? OR (updated_at = ? AND ? < id)) \
                 ORDER BY updated_at, id LIMIT ?"
            )),
            newest: one(format!(
                "{select} WHERE ? > id AND ? <= id AND {FILTERS} ORDER BY id DESC LIMIT ?"
            )),
            window: one(format!(
                "SELECT id FROM {TABLE} WHERE ? > id ORDER BY id DESC LIMIT 1 OFFSET {WINDOW}"
            )),
            audit_of: one(format!(
                "{} WHERE idem_key = ? AND scope = ? AND tenant = ? ORDER BY at, id LIMIT 1000",
                dialect.audit()
            )),
        }
    }

    pub fn named(&self) -> [(&'static str, &'static str); 5] {
        [
            ("list_by_key", self.by_key),
            ("list_by_state", self.by_state),
            ("list_newest", self.newest),
            ("list_window", self.window),
            ("audit_of", self.audit_of),
        ]
    }
}

/// The operations above for one database, as `shared_operations!` has the others.
macro_rules! listing_operations {
    ($statements:ident, $text:expr) => {
        async fn list(
            &self,
            conn: &mut Connection<Self>,
            asked: &Listing,
            walk: Walk,
            limit: u32,
        ) -> Outcome<Vec<Row>> {
            let texts = &$statements.listing;
            let state = asked.state.map_or("", Kind::as_str);
            let mut query = match walk {
                Walk::Key { .. } => sqlx::query_as(texts.by_key)
                    .bind($text(asked.key.as_deref().unwrap_or_default())),
                Walk::State { .. } => sqlx::query_as(texts.by_state).bind(state),
                Walk::Newest { below, down_to } => {
                    sqlx::query_as(texts.newest).bind(below).bind(down_to)
                }
            };
            let all = |filter: bool| i32::from(!filter);
            query = query
                .bind(all(asked.state.is_some()))
                .bind(state)
                .bind(all(asked.tenant.is_some()))
                .bind($text(asked.tenant.as_deref().unwrap_or_default()))
                .bind(all(asked.scope.is_some()))
                .bind($text(asked.scope.as_deref().unwrap_or_default()))
                .bind(millis(asked.older_than));
            query = match walk {
                Walk::Key { below } => query.bind(below),
                Walk::State { behind: (at, id) } => query.bind(at).bind(at).bind(id),
                Walk::Newest { .. } => query,
            };
            query.bind(i64::from(limit)).fetch_all(conn).await
        }

        async fn window(&self, conn: &mut Connection<Self>, below: Uuid) -> Outcome<Option<Uuid>> {
            sqlx::query_scalar($statements.listing.window).bind(below).fetch_optional(conn).await
        }

        async fn audit_of(
            &self,
            conn: &mut Connection<Self>,
            identity: &Identity,
        ) -> Outcome<Vec<AuditRow>> {
            let (key, scope, tenant) = identity.index_order();
            sqlx::query_as($statements.listing.audit_of)
                .bind($text(key))
                .bind($text(scope))
                .bind($text(tenant))
                .fetch_all(conn)
                .await
        }
    };
}
pub(super) use listing_operations;
