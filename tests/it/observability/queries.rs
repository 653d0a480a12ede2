//! Every panel and every recording rule has something to show once there is traffic of each kind.

use std::time::Duration;

use super::files::{self, Query, panel_queries};
use super::prometheus::Prometheus;
use crate::bed::Database;
use crate::support::servers::{self, Kind};
use crate::support::{Gateway, Launch, Reply, Upstream};

const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");
const SOON: Duration = Duration::from_secs(30);

const ROUTES: &str = "
[[routes]]
path = '/pay/{*rest}'
methods = ['POST']
key = 'required'

[[routes]]
path = '/slow/{*rest}'
methods = ['POST']

[[routes]]
path = '/limited/{*rest}'
methods = ['POST']
rate_limit = { per = 'client_ip', rate = '1/m', burst = 1 }
";

/// A little of everything that can happen to a request, the `round`th time.
async fn traffic(gateway: &Gateway, round: usize) {
    let key = format!("key-{round}");
    let statuses = [
        gateway.post("/pay", &key, "{}").await.status,
        gateway.post("/pay", &key, "{}").await.status,
        gateway.post("/pay", &key, "{\"amount\":1}").await.status,
        gateway.ask("POST", "/pay").body("{}").send().await.status,
        gateway.post("/slow", "held", "{}").await.status,
        gateway.get("/anything").await.status,
    ];
    assert_eq!(statuses, [201, 201, 409, 400, 409, 201]);
    gateway.post("/limited", &key, "{}").await;
}

/// As Grafana would fill it in.
fn filled(query: &str) -> String {
    let all = ["$job", "$instance", "$route"];
    let query = query.replace("$__rate_interval", "10s");
    let query = all.iter().fold(query, |query, variable| query.replace(variable, ".*"));
    assert!(!query.contains('$'), "{query}: what is this variable?");
    query
}

fn recorded() -> Vec<Query> {
    let rules = files::read("prometheus/rules.yml");
    let names = files::values(&rules, "record").into_iter();
    names.map(|name| Query { place: "rules.yml".to_owned(), text: name.to_owned() }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_and_every_rule_has_data() {
    if !servers::require(Kind::Prometheus) {
        return;
    }
    let upstream = Upstream::start().await;
    upstream.on("/slow", Reply::new(201).held());
    let durable = Database::Sqlite.fresh().expect("SQLite is always there");
    // The fast tier is away: its errors are to be seen, too.
    let gateway = Launch::serve(PROGRAM)
        .flag("--upstream", &upstream.url())
        .flag("--durable", &durable.url)
        .flag("--fast", "redis://127.0.0.1:1")
        .config(ROUTES)
        .listening()
        .await;
    let prometheus = Prometheus::start(gateway.admin()).await;
    let held = tokio::spawn(gateway.posting("/slow", "held", "{}").send());
    upstream.begun(1).await;

    let mut wanting: Vec<Query> = panel_queries().into_iter().chain(recorded()).collect();
    let all = wanting.len();
    let patience = tokio::time::timeout(SOON, async {
        for round in 0.. {
            traffic(&gateway, round).await;
            let mut still = Vec::new();
            for query in &wanting {
                // 0 ÷ 0 is no data, either.
                let series = prometheus.series(&filled(&query.text)).await;
                if series.iter().all(|series| series["value"][1] == "NaN") {
                    still.push(query.clone());
                }
            }
            wanting = still;
            if wanting.is_empty() {
                break;
            }
        }
    });
    if patience.await.is_err() {
        let shown: Vec<_> = wanting.iter().map(|q| format!("{}: {}", q.place, q.text)).collect();
        panic!("{} of {all} queries have no data:\n{}", shown.len(), shown.join("\n"));
    }
    upstream.let_go();
    assert_eq!(held.await.expect("no panic").status, 201);
}
