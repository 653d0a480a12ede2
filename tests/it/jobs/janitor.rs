//! The janitor: whole heaps of expired records go, in batches, and nothing else does.

use std::time::Duration;

use oncegate::engine::{Acquired, Request};
use oncegate::idempotency::Snapshot;
use oncegate::jobs::Janitor;

use crate::bed::{Pair, Site, fresh_identity};
use crate::support::eventually;

async fn swept(site: Site) {
    let engine = site.engine().await;
    let done = async |ttl| {
        let request = Request::new(fresh_identity()).ttl(ttl);
        let Ok(Acquired::Execute(claim)) = engine.acquire(&request).await else {
            panic!("the first one runs");
        };
        claim.complete(Snapshot::of_value(b"1".to_vec()), None).await;
        request
    };
    futures_util::future::join_all((0..55).map(|_| done(Duration::from_millis(1)))).await;
    let kept = done(Duration::from_secs(600)).await;
    let (one, other) = (Janitor::new(&engine, 10), Janitor::new(&engine, 10));
    let mut purged = 0;
    eventually("all that has expired is gone", Duration::from_secs(30), async || {
        let (one, other) = tokio::join!(one.step(), other.step());
        for report in [one.expect("answered"), other.expect("answered")] {
            assert!(report.purged <= 10 * u64::from(report.batches), "{report:?}");
            purged += report.purged;
        }
        purged >= 55
    })
    .await;
    assert_eq!(purged, 55);
    assert!(engine.record(&kept.identity).await.expect("answered").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_janitors_sweep_in_batches_what_has_expired() {
    for pair in [Pair::MySqlRedis, Pair::PostgresRedis, Pair::SqliteMemory] {
        if let Some(site) = pair.site() {
            swept(site).await;
        }
    }
}
