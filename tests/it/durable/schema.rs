//! The schema, and how it comes to be.

use oncegate::store::durable::{self, DurableOptions};

use super::raw::Raw;
use super::{LONG, look, running};
use crate::bed::{Database, Fresh};

pub async fn migrating_twice_is_fine(fresh: Fresh) {
    let tier = fresh.open().await;
    running(&tier, "k", LONG).await;
    tier.migrate().await.expect("there is nothing left to do");
    let later = fresh.open().await;
    assert!(look(&later, "k").await.is_some());
}

pub async fn two_instances_may_migrate_at_once(fresh: Fresh) {
    let options = DurableOptions::default();
    let open = || durable::open(&fresh.url, &options).expect("the URL is valid");
    let tiers: Vec<_> = (0..4).map(|_| open()).collect();
    let migrating = tiers.iter().map(|tier| tier.migrate());
    for done in futures_util::future::join_all(migrating).await {
        assert_eq!(done, Ok(()));
    }
    for (n, tier) in tiers.iter().enumerate() {
        running(tier, &n.to_string(), LONG).await;
    }
}

pub async fn the_schema_has_its_own_tables_and_no_others(fresh: Fresh) {
    let tier = fresh.open().await;
    running(&tier, "k", LONG).await;
    let tables = match fresh.database {
        Database::MySql | Database::MariaDb => {
            "SELECT CAST(table_name AS CHAR) AS name FROM information_schema.tables \
             WHERE table_schema = DATABASE() ORDER BY table_name"
        }
        Database::Postgres => {
            "SELECT tablename::text FROM pg_tables \
             WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY tablename"
        }
        Database::Sqlite => {
            "SELECT name FROM sqlite_schema WHERE type = 'table' \
             AND name NOT LIKE 'sqlite@_%' ESCAPE '@' ORDER BY name"
        }
    };
    let tables = Raw::connect(&fresh).await.column(tables).await;
    assert_eq!(
        tables,
        ["oncegate_audit", "oncegate_deployment", "oncegate_migrations", "oncegate_records"]
    );
}

pub async fn a_database_has_a_name_of_its_own_that_stays(fresh: Fresh) {
    let tier = fresh.open().await;
    let name = tier.deployment().await.expect("it has one");
    assert_eq!(name.len(), 32, "{name}");
    tier.migrate().await.expect("there is nothing left to do");
    assert_eq!(fresh.open().await.deployment().await.as_ref(), Ok(&name));
    let another = fresh.database.fresh().expect("there was one before");
    assert_ne!(another.open().await.deployment().await.as_ref(), Ok(&name));
}
