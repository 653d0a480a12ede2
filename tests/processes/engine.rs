//! An engine in a process of its own, for tests that kill it, stop it, or bend its clock.
//!
//!     engine_process DURABLE-URL FAST-URL KEY hold|retry LEASE-MS EXECUTIONS-FILE
//!
//! Runs one operation for the key. The operation adds a byte to the file, says `running` and ends
//! when a line comes in; the outcome is the last line that goes out.

use std::io::{Read, Write};
use std::time::Duration;

use oncegate::engine::{Engine, Request};
use oncegate::idempotency::key::KeyRules;
use oncegate::idempotency::{Identity, Key, Policy, Scope, Tenant, WhenUnknown};
use oncegate::store::durable::{self, DurableOptions};
use oncegate::store::{Tiered, fast};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [durable_url, fast_url, key, when_unknown, lease, executions] = &arguments[..] else {
        panic!("see the top of this file");
    };
    let durable = durable::open(durable_url, &DurableOptions::default()).expect("a durable tier");
    let fast = fast::open(fast_url).expect("a fast tier");
    let engine = Engine::new(Tiered::new(durable, fast, Default::default()));
    let policy = Policy {
        lease: Duration::from_millis(lease.parse().expect("a number of milliseconds")),
        when_unknown: match when_unknown.as_str() {
            "retry" => WhenUnknown::Retry,
            _ => WhenUnknown::Hold,
        },
        ..Policy::default()
    };
    let key = Key::new(key, &KeyRules::default()).expect("a key");
    let identity = Identity::new(Tenant::from_text("tenant"), Scope::default(), key);
    let executions = executions.clone();
    let outcome = engine
        .execute(Request::new(identity).policy(policy), move || async move {
            tokio::task::spawn_blocking(move || run(&executions)).await.map_err(|e| e.to_string())
        })
        .await;
    println!("{outcome:?}");
    engine.shutdown(Duration::from_secs(10)).await;
}

fn run(executions: &str) -> usize {
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(executions).expect("the file");
    file.write_all(b"x").expect("the execution is counted");
    println!("running");
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).expect("somebody says when it ends");
    file.metadata().expect("the file is there").len() as usize
}
