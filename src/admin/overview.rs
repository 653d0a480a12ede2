//! `GET /api/overview`: how this instance and its tiers are, at a price that a console may pay
//! every few seconds.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{Actor, Api, view};
use crate::clock;
use crate::config::Route;
use crate::engine::inspect::{Kind, Listing};
use crate::http::{Body, json};
use crate::idempotency::WhenUnknown;
use crate::telemetry::prometheus::Exposition;

pub async fn answer(api: &Api, actor: Actor, counted: Option<&Exposition>) -> Response<Body> {
    let tiers = api.engine.tiers();
    let oldest = |state| api.engine.records(Listing { state, limit: 1, ..Listing::default() });
    let fast_ping = async {
        match tiers.fast() {
            Some(fast) => Some(fast.ping().await.is_ok()),
            None => None,
        }
    };
    let (counts, processing, unknown, fast) = tokio::join!(
        api.engine.counts(api.stuck_after),
        oldest(Some(Kind::Processing)),
        oldest(Some(Kind::Unknown)),
        fast_ping,
    );
    let counts = counts.inspect_err(|error| tracing::warn!(%error, "nothing can be counted"));
    let since = |page: Result<crate::engine::inspect::Page, _>| {
        let page = page.ok()?;
        page.found.first().map(|found| view::time(found.record.updated_at))
    };
    let records = counts.as_ref().ok().map(|counts| {
        json!({
            "processing": counts.processing,
            "stuck": counts.stuck,
            "unknown": counts.unknown,
            "oldest_processing_seconds":
                counts.oldest_processing.map(|age| age.as_millis() as f64 / 1000.0),
            "oldest_processing_since": since(processing),
            "oldest_unknown_since": since(unknown),
        })
    });
    let counts_since_start = counted.map(Exposition::totals).map(|totals| {
        json!({
            "requests": totals.requests,
            "conflicts": totals.conflicts,
            "replays": totals.replays,
        })
    });
    let routes: Vec<_> = api.routes.load().iter().map(|route| view_of(route)).collect();
    json::answer(
        StatusCode::OK,
        &json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": clock::now().saturating_duration_since(api.started).as_secs(),
            "actor": actor.as_str(),
            "may_change": actor.may_change(),
            "show_bodies": api.show_bodies,
            "stuck_after_seconds": api.stuck_after.as_secs(),
            "records": records,
            "counts": counts_since_start,
            "tiers": {
                "durable": { "kind": tiers.durable().name(), "up": counts.is_ok() },
                "fast": { "kind": if fast.is_some() { "configured" } else { "none" }, "up": fast },
            },
            "routes": routes,
        }),
    )
}

fn view_of(route: &Route) -> Value {
    let methods: Vec<_> = route.methods.iter().map(http::Method::as_str).collect();
    json!({
        "path": route.path,
        "methods": methods,
        "scope": route.scope.as_str(),
        "ttl_seconds": route.policy.ttl.as_secs(),
        "lease_seconds": route.policy.lease.as_secs(),
        "when_unknown": match route.policy.when_unknown {
            WhenUnknown::Hold => "hold",
            WhenUnknown::Retry => "retry",
        },
    })
}
