//! Spans arrive at a collector of OpenTelemetry, as one tree with the client's and the API's.

use std::time::Duration;

use serde_json::Value;

use crate::bed::Database;
use crate::support::{Launch, Upstream, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");
const SOON: Duration = Duration::from_secs(30);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const STEPS: [&str; 6] = ["request", "identify", "fast", "durable", "upstream", "store"];

/// Every span that the collector has got.
fn spans(collector: &Upstream) -> Vec<Value> {
    let documents = collector.executions();
    let documents = documents.iter().map(|sent| {
        serde_json::from_slice::<Value>(&sent.body).expect("the collector is sent JSON")
    });
    let mut spans = Vec::new();
    for document in documents {
        for resource in document["resourceSpans"].as_array().into_iter().flatten() {
            for scope in resource["scopeSpans"].as_array().into_iter().flatten() {
                spans.extend(scope["spans"].as_array().into_iter().flatten().cloned());
            }
        }
    }
    spans
}

fn named<'s>(spans: &'s [Value], name: &str) -> &'s Value {
    let mut found = spans.iter().filter(|span| span["name"] == name);
    let one = found.next().unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
    assert!(found.next().is_none(), "two of {name} in {spans:#?}");
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_call_is_a_tree_of_spans() {
    let (upstream, collector) = (Upstream::start().await, Upstream::start().await);
    let durable = Database::Sqlite.fresh().expect("SQLite is always there");
    let traces = format!("[traces]\nendpoint = '{}/v1/traces'\n", collector.url());
    let gateway = Launch::serve(PROGRAM)
        .flag("--upstream", &upstream.url())
        .flag("--durable", &durable.url)
        .variable("OTEL_BSP_SCHEDULE_DELAY", "100")
        .config(&traces)
        .listening()
        .await;
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let answer = gateway.posting("/pay", "a", "{}").header("traceparent", &parent).send().await;
    assert_eq!(answer.status, 201);
    eventually("all steps have arrived", SOON, async || spans(&collector).len() >= STEPS.len())
        .await;
    let spans = spans(&collector);
    assert_eq!(spans.len(), STEPS.len(), "{spans:#?}");
    let request = named(&spans, "request");
    assert_eq!(request["parentSpanId"], PARENT);
    for step in STEPS {
        let span = named(&spans, step);
        assert_eq!(span["traceId"], TRACE, "{span:#?}");
        if step != "request" {
            assert_eq!(span["parentSpanId"], request["spanId"], "{span:#?}");
        }
    }
    // What the API does is a part of the step that asked for it.
    let seen = upstream.last();
    let asked_by = named(&spans, "upstream")["spanId"].as_str().expect("an id");
    assert_eq!(seen.all("traceparent"), [format!("00-{TRACE}-{asked_by}-01")]);
    // What a caller does not record is not recorded here.
    let unwanted = format!("00-{}-{PARENT}-00", TRACE.replace('4', "5"));
    gateway.posting("/pay", "b", "{}").header("traceparent", &unwanted).send().await;
    // One that begins here is; and what is left at the end is sent.
    gateway.post("/pay", "c", "{}").await;
    gateway.signal(libc::SIGTERM);
    assert_eq!(gateway.exit_code(SOON).await, Some(0));
    let all = self::spans(&collector);
    assert_eq!(all.len(), 2 * STEPS.len(), "{all:#?}");
    assert!(all.iter().all(|span| span["traceId"] != TRACE.replace('4', "5").as_str()));
}
