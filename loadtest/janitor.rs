//! What sweeping a million expired records costs the calls that go on meanwhile: the latency of
//! first calls with and without the janitor, in turns within one run, on a real MySQL.
//!
//!     cargo bench --bench janitor [-- --rows 1000000 --rate 200 --seconds 10 --rounds 3]
//!
//! Calls come at a steady rate, well below what the machine can do, and are timed from when they
//! were due: a gateway that stalls is charged for those that had to wait. The gateway that sweeps
//! serves the calls itself. More than twice the p99 of the quiet phases is a failure.

#[path = "../tests/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use oncegate::clock;
use sqlx::{AssertSqlSafe, MySqlPool};
use support::servers::{self, Kind};
use support::{Ask, Connection, Gateway, Launch, MySql, Redis, Reply, Server, Upstream};

const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");
const CONNECTIONS: u32 = 32;
const CHUNK: u64 = 20_000;
const WARM_UP: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_secs(10);
const MOST: f64 = 2.0;
/// Too few to find anything left to sweep in the last phase.
const A_PHASE_AT_LEAST: u64 = 1000;
const ROUTE: &str = "[[routes]]\npath = '/pay'\nmethods = ['POST']\nkey = 'required'\n";

/// Records like those of real calls, long expired: 600-byte answers, keys in order.
const FILL: &str = "INSERT INTO oncegate_records \
    (id, tenant, scope, idem_key, fingerprint, state, attempt, token, expires_at, \
     response_status, response_headers, response_body, created_at, updated_at) \
    WITH digits (d) AS (VALUES ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7), \
     ROW(8), ROW(9)), \
    numbers (n) AS (SELECT {from} + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d \
     FROM digits a, digits b, digits c, digits e, digits f WHERE f.d < {chunk} / 10000) \
    SELECT UNHEX(LPAD(HEX(n), 32, '0')), '', 'default', CONCAT('expired-', LPAD(n, 12, '0')), \
     UNHEX(SHA2(n, 256)), 'SUCCEEDED', 1, UNHEX(LEFT(SHA2(n, 256), 32)), 1600000000000 + n, 200, \
     'content-type: application/json\\r\\n', REPEAT('x', 600), 1600000000000, 1600000000000 \
    FROM numbers";

struct Settings {
    rows: u64,
    rate: u32,
    phase: Duration,
    rounds: u32,
}

fn settings() -> Settings {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, usual: u64| {
        let place = words.iter().position(|word| word == name);
        let value = place.and_then(|place| words.get(place + 1));
        value.map_or(usual, |value| value.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
    };
    Settings {
        rows: number("--rows", 1_000_000).next_multiple_of(CHUNK),
        rate: number("--rate", 200) as u32,
        phase: Duration::from_secs(number("--seconds", 10)),
        rounds: number("--rounds", 3) as u32,
    }
}

fn main() {
    for (kind, name) in [(Kind::MySql, "MySQL"), (Kind::Redis, "Redis")] {
        if !servers::available(kind) {
            println!("{name} is not there; `bash tests/run --prepare` gets it");
            return;
        }
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let fine = runtime.block_on(run(settings()));
    // The servers have ended by now.
    std::process::exit(i32::from(!fine));
}

async fn run(settings: Settings) -> bool {
    // The sizes that it has by default; the tests' are smaller.
    let mysql =
        MySql::start_with(&["--innodb-buffer-pool-size=128M", "--innodb-redo-log-capacity=100M"]);
    let redis = Redis::start();
    let upstream = Upstream::start().await;
    upstream.on("/pay", Reply::new(200).body("x".repeat(600)));
    let url = mysql.url() + "?ssl-mode=DISABLED";
    let gateway = async |janitor: &str| {
        let launch = Launch::serve(PROGRAM).flag("--upstream", &upstream.url());
        let launch = launch.flag("--durable", &url).flag("--fast", &redis.url());
        launch.config(&format!("{janitor}{ROUTE}")).listening().await
    };
    // Both are there from the beginning, and have served. The janitor of one looks once at the
    // start, finds nothing, and is not seen again; the other looks all the time, and is stopped
    // whenever nobody is to sweep.
    let calm = gateway("[janitor]\ninterval = '1d'\n").await;
    let sweeper = gateway("[janitor]\ninterval = '10ms'\n").await;
    for gateway in [&calm, &sweeper] {
        load(gateway, settings.rate, WARM_UP * 2).await;
    }
    sweeper.freeze();
    let began = clock::now();
    fill(&url, settings.rows).await;
    // What it has to write down for them is not the janitor's doing.
    tokio::time::sleep(SETTLE).await;
    println!(
        "{} expired records in {:.0} s; {} first calls a second, {:?} a phase",
        settings.rows,
        began.elapsed().as_secs_f64(),
        settings.rate,
        settings.phase
    );
    println!(
        "{:<8} {:>18} {:>18} {:>14}",
        "round", "without p50/p99", "with p50/p99", "rows/s swept"
    );
    let (mut quiet, mut swept) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        let without = phase(&calm, &settings).await;
        assert_eq!(without.rows_per_second, 0.0, "a quiet phase is quiet");
        sweeper.thaw();
        let with = phase(&sweeper, &settings).await;
        sweeper.freeze();
        let pair = |times: &[Duration]| format!("{:.1}/{:.1} ms", at(times, 50), at(times, 99));
        println!(
            "{round:<8} {:>18} {:>18} {:>14.0}",
            pair(&without.times),
            pair(&with.times),
            with.rows_per_second
        );
        if with.rows_per_second < A_PHASE_AT_LEAST as f64 / settings.phase.as_secs_f64() {
            println!("nothing was left to sweep: give it more --rows");
            return false;
        }
        quiet.extend(without.times);
        swept.extend(with.times);
    }
    for times in [&mut quiet, &mut swept] {
        times.sort();
    }
    let ratio = at(&swept, 99) / at(&quiet, 99);
    println!(
        "all      {:>15.1} ms {:>15.1} ms   p99 {ratio:.2} × (at most {MOST})",
        at(&quiet, 99),
        at(&swept, 99)
    );
    ratio <= MOST
}

async fn fill(url: &str, rows: u64) {
    let pool = MySqlPool::connect(url).await.expect("MySQL takes connections");
    for from in (0..rows).step_by(CHUNK as usize) {
        let text = FILL.replace("{from}", &from.to_string());
        let text = text.replace("{chunk}", &CHUNK.to_string());
        sqlx::query(AssertSqlSafe(text)).execute(&pool).await.expect("it is filled");
    }
    pool.close().await;
}

struct Phase {
    /// Sorted.
    times: Vec<Duration>,
    rows_per_second: f64,
}

async fn phase(gateway: &Gateway, settings: &Settings) -> Phase {
    load(gateway, settings.rate, WARM_UP).await;
    let swept = async || gateway.metrics().await.sum("oncegate_purged_records_total", &[]);
    let (before, began) = (swept().await, clock::now());
    let times = load(gateway, settings.rate, settings.phase).await;
    let rows_per_second = (swept().await - before) / began.elapsed().as_secs_f64();
    Phase { times, rows_per_second }
}

/// First calls at a steady rate; how long each took, from when it was due.
async fn load(gateway: &Gateway, rate: u32, length: Duration) -> Vec<Duration> {
    let every = Duration::from_secs(1) * CONNECTIONS / rate;
    let began = clock::now() + Duration::from_millis(50);
    let callers = (0..CONNECTIONS).map(|number| {
        let first = began + every * number / CONNECTIONS;
        tokio::spawn(calls(gateway.addr(), first, every, began + length))
    });
    let mut times = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        times.extend(caller.await.expect("no caller panics"));
    }
    times.sort();
    times
}

async fn calls(to: SocketAddr, first: Instant, every: Duration, end: Instant) -> Vec<Duration> {
    let mut connection = Connection::connect(to).await.expect("the gateway accepts");
    let (mut due, mut times) = (first, Vec::new());
    while due < end {
        tokio::time::sleep_until(due.into()).await;
        let key = uuid::Uuid::new_v4().to_string();
        let ask = Ask::new(to, "POST", "/pay").key(&key).body("{\"amount\":4200}");
        let answer = ask.send_on(&mut connection).await.expect("it is answered");
        assert_eq!(answer.header("Idempotency-Status"), Some("executed"), "{answer:?}");
        times.push(clock::now().saturating_duration_since(due));
        due += every;
    }
    times
}

/// A percentile in milliseconds.
fn at(sorted: &[Duration], percent: usize) -> f64 {
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
