//! What group commit is worth: claim + complete pairs per second, grouped against one statement
//! per write, on every durable backend with its default durability.
//!
//!     cargo bench --bench writes [-- mysql mariadb postgres sqlite]
//!
//! One statement per write is what one writes without group commit: each write takes a connection of
//! the pool, which has 64, and gives it back.
//!
//! Both ways take turns in short rounds, so that a noisy machine disturbs both alike, and what is told
//! is the median: of the figures, and of the ratios of neighbouring rounds, which count. The servers
//! are private ones on this machine, sharing its cores, with the sizes and the durability that they
//! have by default.

mod median;
#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use median::median;
use oncegate::clock;
use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::key::KeyRules;
use oncegate::idempotency::{
    Body, Fingerprint, HeaderBlock, Identity, Key, Scope, Settlement, Snapshot, Tenant,
};
use oncegate::store::durable::{self, Claimed, DurableOptions, DurableTier, NewClaim, Writes};
use support::servers::{self, DatabaseServer, Kind};
use support::{MariaDb, MySql, Postgres, scratch};

const CALLERS: [usize; 4] = [1, 16, 64, 256];
const ROUND: Duration = Duration::from_millis(600);
const ROUNDS: usize = 9;
const WARM_UP: Duration = Duration::from_millis(1000);
const ANSWER_BYTES: usize = 600;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    // As in the gateway, whose tiers have half of the cores.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).max(1))
        .enable_all()
        .build()
        .expect("a runtime can be built");
    println!(
        "claim + complete pairs per second, {ANSWER_BYTES}-byte answers, median of {ROUNDS} rounds"
    );
    println!(
        "{:<10} {:>8} {:>12} {:>12} {:>8} {:>22}",
        "backend", "callers", "single/s", "grouped/s", "ratio", "server CPU µs/pair"
    );
    for backend in ["mysql", "mariadb", "postgres", "sqlite"] {
        if wanted.is_empty() || wanted.iter().any(|name| name == backend) {
            match Bench::start(backend) {
                Some(bench) => runtime.block_on(bench.run()),
                None => println!("{backend:<10} could not be had on this machine"),
            }
        }
    }
}

struct Bench {
    backend: &'static str,
    url: String,
    server: Option<Box<dyn DatabaseServer>>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn start(backend: &'static str) -> Option<Self> {
        let folder = scratch::folder(backend);
        let server: Option<Box<dyn DatabaseServer>> = match backend {
            "mysql" if servers::available(Kind::MySql) => Some(Box::new(MySql::start_with(&[
                "--innodb-buffer-pool-size=128M",
                "--innodb-redo-log-capacity=100M",
            ]))),
            "mariadb" if servers::available(Kind::MariaDb) => {
                Some(Box::new(MariaDb::start_with(&[
                    "--innodb-buffer-pool-size=128M",
                    "--innodb-log-file-size=96M",
                ])))
            }
            "postgres" if servers::available(Kind::Postgres) => {
                Some(Box::new(Postgres::start_with(&["-c", "shared_buffers=128MB"])))
            }
            "sqlite" => None,
            _ => return None,
        };
        let url = match &server {
            // Without TLS, which would be most of the work on one machine.
            Some(server) if backend != "postgres" => server.url() + "?ssl-mode=DISABLED",
            Some(server) => server.url() + "?sslmode=disable",
            None => format!("sqlite://{}", folder.path().join("bench.db").display()),
        };
        Some(Self { backend, url, server, _folder: folder })
    }

    async fn run(self) {
        let single = self.open(Writes::Single).await;
        let grouped = self.open(Writes::Grouped).await;
        for callers in CALLERS {
            // Connections and prepared statements are made before anything is measured.
            for tier in [&single, &grouped] {
                self.round(tier, callers, WARM_UP).await;
            }
            let mut turns = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                let one = self.round(&single, callers, ROUND).await;
                turns.push((one, self.round(&grouped, callers, ROUND).await));
            }
            let of = |figure: fn(&(Measured, Measured)) -> f64| {
                median(turns.iter().map(figure)).unwrap_or(f64::NAN)
            };
            println!(
                "{:<10} {:>8} {:>12.0} {:>12.0} {:>7.2}x {:>10.0} → {:.0}",
                self.backend,
                callers,
                of(|(one, _)| one.per_second),
                of(|(_, many)| many.per_second),
                of(|(one, many)| many.per_second / one.per_second),
                of(|(one, _)| one.server_cpu_micros),
                of(|(_, many)| many.server_cpu_micros),
            );
        }
        single.close().await;
        grouped.close().await;
    }

    async fn open(&self, writes: Writes) -> Arc<dyn DurableTier> {
        let patience = Duration::from_secs(30);
        let options = DurableOptions { max_connections: 64, patience, writes };
        let tier = durable::open(&self.url, &options).expect("the URL names a durable tier");
        tier.migrate().await.expect("it can be migrated");
        tier
    }

    async fn round(
        &self,
        tier: &Arc<dyn DurableTier>,
        callers: usize,
        length: Duration,
    ) -> Measured {
        let stop = Arc::new(AtomicBool::new(false));
        let pairs = Arc::new(AtomicU64::new(0));
        let cpu_before = self.server_cpu_micros();
        let began = clock::now();
        let tasks: Vec<_> = (0..callers)
            .map(|_| tokio::spawn(call(tier.clone(), stop.clone(), pairs.clone())))
            .collect();
        tokio::time::sleep(length).await;
        let done = pairs.load(Ordering::Relaxed);
        let elapsed = began.elapsed();
        let cpu = self.server_cpu_micros() - cpu_before;
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.expect("no caller panics");
        }
        Measured {
            per_second: done as f64 / elapsed.as_secs_f64(),
            server_cpu_micros: cpu / done.max(1) as f64,
        }
    }

    /// Of the server's process and those it has started.
    fn server_cpu_micros(&self) -> f64 {
        let Some(server) = &self.server else {
            return f64::NAN;
        };
        support::family::cpu_time(server.instance().pid()).as_micros() as f64
    }
}

struct Measured {
    per_second: f64,
    server_cpu_micros: f64,
}

async fn call(tier: Arc<dyn DurableTier>, stop: Arc<AtomicBool>, pairs: Arc<AtomicU64>) {
    let tenant = Tenant::from_text("bench");
    let answer = Snapshot {
        status: 201,
        headers: HeaderBlock::from_pairs([(&b"content-type"[..], &b"application/json"[..])]),
        body: Body::Stored(vec![b'x'; ANSWER_BYTES].into()),
    };
    while !stop.load(Ordering::Relaxed) {
        let key = uuid::Uuid::new_v4().to_string();
        let key = Key::new(&key, &KeyRules::default()).expect("a UUID is a key");
        let identity = Identity::new(tenant.clone(), Scope::default(), key);
        let asked = Asked { fingerprint: Some(Fingerprint::of_text("x")), credential: None };
        let claim = NewClaim::new(identity, asked, Duration::from_secs(30));
        let fence = claim.fence;
        match tier.claim(claim).await.expect("the claim is answered") {
            Claimed::New => {}
            Claimed::Exists(_) => panic!("a fresh key is taken"),
        }
        let done = Settlement::Succeed {
            answer: answer.clone(),
            result_ref: None,
            keep: Duration::from_secs(3600),
        };
        tier.settle(fence, done).await.expect("the completion is answered");
        pairs.fetch_add(1, Ordering::Relaxed);
    }
}
