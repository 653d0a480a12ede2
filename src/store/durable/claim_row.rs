//! A claim as the columns it writes.

use std::time::Duration;

use uuid::Uuid;

use super::NewClaim;
use super::sizes::{MAX_ROWS, Sizes, repeat};
use super::statements::{Dialect, TABLE};
use crate::clock::millis;
use crate::idempotency::Origin;

/// The texts for databases whose statements name every value.
pub struct Inserts {
    /// What nearly every batch is: two columns less.
    calls: Sizes,
    /// Calls and decisions.
    any: Sizes,
}

pub struct ClaimRow<'a> {
    pub id: Uuid,
    pub key: &'a str,
    pub scope: &'a str,
    pub tenant: &'a str,
    pub fingerprint: Option<&'a [u8]>,
    pub credential: Option<&'a [u8]>,
    pub token: Uuid,
    pub lease: i64,
    pub decision: i16,
    pub attended: Option<i64>,
}

impl<'a> From<&'a NewClaim> for ClaimRow<'a> {
    fn from(claim: &'a NewClaim) -> Self {
        let (key, scope, tenant) = claim.identity.index_order();
        Self {
            id: claim.fence.id.0,
            key,
            scope,
            tenant,
            fingerprint: claim.asked.fingerprint.as_ref().map(|digest| &digest.as_bytes()[..]),
            credential: claim.asked.credential.as_ref().map(|digest| &digest.as_bytes()[..]),
            token: claim.fence.token.0,
            lease: millis(claim.lease),
            decision: decision(claim.origin),
            attended: attended(claim.origin, claim.lease),
        }
    }
}

/// The column that says who runs it.
pub fn decision(origin: Origin) -> i16 {
    i16::from(origin == Origin::Decision)
}

/// A decision's owner is called back when its lock runs out; a call is not.
pub fn attended(origin: Origin, lease: Duration) -> Option<i64> {
    (origin == Origin::Decision).then(|| millis(lease))
}

impl Inserts {
    /// They skip rows whose identity is taken, each dialect by words of its own before or after.
    /// `again` is what the first column, the time, is called once it is known.
    pub fn new(dialect: &Dialect, before: &str, after: &str, again: &str) -> Self {
        let sizes = |columns: &str, values: &str| {
            let row = format!(
                "({{now}}, {again}, {again} + ?, ?, ?, ?, ?, ?, ?, ?, {values}'PROCESSING', 1)"
            );
            Sizes::up_to(MAX_ROWS, |n| {
                dialect.finish(&format!(
                    "{before} {TABLE} (created_at, updated_at, due_at, id, idem_key, scope, tenant, \
                     fingerprint, credential, token, {columns}state, attempt) VALUES {}{after}",
                    repeat(&row, n, ", ")
                ))
            })
        };
        Self {
            calls: sizes("", ""),
            any: sizes("decision, attend_at, ", &format!("?, {again} + ?, ")),
        }
    }

    pub fn exactly(&self, rows: usize, decisions: bool) -> &'static str {
        if decisions { self.any.exactly(rows) } else { self.calls.exactly(rows) }
    }
}

macro_rules! insert_operation {
    ($texts:ident, $text:expr) => {
        async fn insert(&self, conn: &mut Connection<Self>, claims: &[NewClaim]) -> Outcome<u64> {
            let _turn = self.turn().await;
            let decisions = claims.iter().any(|claim| claim.origin == Origin::Decision);
            let mut query = sqlx::query($texts.exactly(claims.len(), decisions));
            for row in claims.iter().map(ClaimRow::from) {
                query = query
                    .bind(row.lease)
                    .bind(row.id)
                    .bind($text(row.key))
                    .bind($text(row.scope))
                    .bind($text(row.tenant))
                    .bind(row.fingerprint)
                    .bind(row.credential)
                    .bind(row.token);
                if decisions {
                    query = query.bind(row.decision).bind(row.attended);
                }
            }
            Ok(query.execute(conn).await?.rows_affected())
        }
    };
}
pub(super) use insert_operation;
