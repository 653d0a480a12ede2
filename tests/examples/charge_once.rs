//! The engine inside a service: a charge that happens once, however often it is asked for.
//!
//!     cargo run --example charge_once
//!     cargo run --example charge_once -- mysql://user@127.0.0.1/oncegate redis://127.0.0.1
//!
//! Run it twice with a database of your own: the second run replays what the first one did.

use std::time::Duration;

use oncegate::engine::{Engine, Outcome, Request};
use oncegate::idempotency::key::KeyRules;
use oncegate::idempotency::{Fingerprint, Identity, Key, Scope, Tenant};
use oncegate::store::{Tiered, durable, fast};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Order {
    id: &'static str,
    cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    charge: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut urls = std::env::args().skip(1);
    let durable_url = urls.next().unwrap_or_else(|| "sqlite::memory:".into());
    let fast_url = urls.next().unwrap_or_else(|| "memory:".into());

    let durable = durable::open(&durable_url, &Default::default())?;
    durable.migrate().await?;
    let engine = Engine::new(Tiered::new(durable, fast::open(&fast_url)?, Default::default()));

    let order = Order { id: "order-1042", cents: 4200 };
    for _ in 0..3 {
        // The key says which order it is, the fingerprint what is asked for.
        let key = Key::new(order.id, &KeyRules::default())?;
        let identity = Identity::new(Tenant::from_text("acme"), Scope::new("charge")?, key);
        let request = Request::new(identity)
            .fingerprint(Fingerprint::of_value(&order)?)
            .ttl(Duration::from_secs(3600))
            .lease(Duration::from_secs(30))
            .wait(Duration::from_secs(2));
        match engine.execute(request, || async { charge().await }).await? {
            Outcome::Executed(receipt) => println!("charged now:    {receipt:?}"),
            Outcome::Replayed(receipt) => println!("charged before: {receipt:?}"),
            Outcome::InProgress => println!("is being charged by somebody else"),
        }
    }
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

async fn charge() -> Result<Receipt, std::io::Error> {
    Ok(Receipt { charge: "ch_1".into() })
}
