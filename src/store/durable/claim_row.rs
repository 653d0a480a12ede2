//! A claim as the columns it writes.

use std::time::Duration;

use uuid::Uuid;

use super::NewClaim;
use super::sizes::repeat;
use super::statements::{Dialect, TABLE};
use crate::clock::millis;
use crate::idempotency::Origin;

/// In the order in which claims are bound; what is the same for all of them comes last.
pub const COLUMNS: &str = "id, idem_key, scope, tenant, fingerprint, credential, token, due_at, \
     decision, attend_at, state, attempt, created_at, updated_at";

/// The same columns, of which only these have a value of their own.
const VALUES: &str =
    "(?, ?, ?, ?, ?, ?, ?, {now} + ?, ?, {now} + ?, 'PROCESSING', 1, {now}, {now})";

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

/// Skips rows whose identity is taken, each dialect by words of its own before or after.
pub fn insert_text(dialect: &Dialect, before: &str, after: &str, rows: usize) -> String {
    let rows = repeat(VALUES, rows, ", ");
    dialect.finish(&format!("{before} {TABLE} ({COLUMNS}) VALUES {rows}{after}"))
}

/// For databases whose statements name every value.
macro_rules! insert_operation {
    ($texts:ident, $text:expr) => {
        async fn insert(&self, conn: &mut Connection<Self>, claims: &[NewClaim]) -> Outcome<u64> {
            let _turn = self.turn().await;
            let mut query = sqlx::query($texts.exactly(claims.len()));
            for row in claims.iter().map(ClaimRow::from) {
                query = query
                    .bind(row.id)
                    .bind($text(row.key))
                    .bind($text(row.scope))
                    .bind($text(row.tenant))
                    .bind(row.fingerprint)
                    .bind(row.credential)
                    .bind(row.token)
                    .bind(row.lease)
                    .bind(row.decision)
                    .bind(row.attended);
            }
            Ok(query.execute(conn).await?.rows_affected())
        }
    };
}
pub(super) use insert_operation;
