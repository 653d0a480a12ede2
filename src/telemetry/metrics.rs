//! Every metric name, in one place.
//!
//! What the hot path counts is looked up once, at the start or with a route's first request, and
//! kept as a handle: the registry is not asked again.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// Where an answer, or an error, came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    Local,
    Fast,
    Durable,
}

impl Tier {
    pub const ALL: [Self; 3] = [Self::Local, Self::Fast, Self::Durable];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Fast => "fast",
            Self::Durable => "durable",
        }
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Executed,
    Replayed,
    InProgress,
    Mismatch,
    Failed,
    Unknown,
    Rejected,
    Bypassed,
    Untouched,
}

impl Outcome {
    pub const ALL: [Self; 9] = [
        Self::Executed,
        Self::Replayed,
        Self::InProgress,
        Self::Mismatch,
        Self::Failed,
        Self::Unknown,
        Self::Rejected,
        Self::Bypassed,
        Self::Untouched,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Replayed => "replayed",
            Self::InProgress => "in_progress",
            Self::Mismatch => "mismatch",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Rejected => "rejected",
            Self::Bypassed => "bypassed",
            Self::Untouched => "untouched",
        }
    }
}

/// The handles of one route, known by its path.
pub struct RouteMetrics {
    requests: [(Counter, Histogram); Outcome::ALL.len()],
    conflicts_in_progress: Counter,
    conflicts_mismatch: Counter,
    upstream: Histogram,
    rate_limited: Counter,
}

impl RouteMetrics {
    pub fn new(route: &str) -> Self {
        let label = || route.to_owned();
        let conflicts =
            |kind| counter!("oncegate_conflicts_total", "route" => label(), "kind" => kind);
        Self {
            requests: Outcome::ALL.map(|outcome| {
                let outcome = outcome.as_str();
                (
                    counter!("oncegate_requests_total", "route" => label(), "outcome" => outcome),
                    histogram!("oncegate_request_duration_seconds",
                        "route" => label(), "outcome" => outcome),
                )
            }),
            conflicts_in_progress: conflicts("in_progress"),
            conflicts_mismatch: conflicts("mismatch"),
            upstream: histogram!("oncegate_upstream_duration_seconds", "route" => label()),
            rate_limited: counter!("oncegate_rate_limited_total", "route" => label()),
        }
    }

    pub fn request(&self, outcome: Outcome, took: Duration) {
        let (requests, duration) = &self.requests[outcome as usize];
        requests.increment(1);
        duration.record(took);
        match outcome {
            Outcome::InProgress => self.conflicts_in_progress.increment(1),
            Outcome::Mismatch => self.conflicts_mismatch.increment(1),
            _ => {}
        }
    }

    pub fn upstream(&self, took: Duration) {
        self.upstream.record(took);
    }

    pub fn rate_limited(&self) {
        self.rate_limited.increment(1);
    }
}

static REPLAYS: LazyLock<[Counter; 3]> = LazyLock::new(|| {
    Tier::ALL.map(|tier| counter!("oncegate_replays_total", "tier" => tier.as_str()))
});

pub fn replay(tier: Tier) {
    REPLAYS[tier as usize].increment(1);
}

/// What a tier is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Reserve,
    Replace,
    RenewLocks,
    ForgetFast,
    Claim,
    TakeOver,
    Settle,
    RenewLeases,
    Find,
    Forget,
    Resolve,
}

impl Operation {
    const ALL: [Self; 11] = [
        Self::Reserve,
        Self::Replace,
        Self::RenewLocks,
        Self::ForgetFast,
        Self::Claim,
        Self::TakeOver,
        Self::Settle,
        Self::RenewLeases,
        Self::Find,
        Self::Forget,
        Self::Resolve,
    ];

    fn labels(self) -> (Tier, &'static str) {
        match self {
            Self::Reserve => (Tier::Fast, "reserve"),
            Self::Replace => (Tier::Fast, "replace"),
            Self::RenewLocks => (Tier::Fast, "renew"),
            Self::ForgetFast => (Tier::Fast, "forget"),
            Self::Claim => (Tier::Durable, "claim"),
            Self::TakeOver => (Tier::Durable, "take_over"),
            Self::Settle => (Tier::Durable, "settle"),
            Self::RenewLeases => (Tier::Durable, "renew"),
            Self::Find => (Tier::Durable, "find"),
            Self::Forget => (Tier::Durable, "forget"),
            Self::Resolve => (Tier::Durable, "resolve"),
        }
    }
}

static OPERATIONS: LazyLock<[(Histogram, Counter); Operation::ALL.len()]> = LazyLock::new(|| {
    Operation::ALL.map(|operation| {
        let (tier, op) = operation.labels();
        (
            histogram!("oncegate_tier_duration_seconds", "tier" => tier.as_str(), "op" => op),
            counter!("oncegate_tier_errors_total", "tier" => tier.as_str(), "op" => op),
        )
    })
});

pub fn tier_asked(operation: Operation, took: Duration, failed: bool) {
    let (duration, errors) = &OPERATIONS[operation as usize];
    duration.record(took);
    if failed {
        errors.increment(1);
    }
}

/// Which writes share a statement and a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    Claims,
    Settlements,
}

pub fn group_commit(batch: Batch, rows: usize) {
    static ROWS: LazyLock<[Histogram; 2]> = LazyLock::new(|| {
        ["claim", "settle"].map(|op| histogram!("oncegate_group_commit_rows", "op" => op))
    });
    ROWS[batch as usize].record(rows as f64);
}

pub fn fenced_writes(count: u64) {
    counter!("oncegate_fenced_writes_total").increment(count);
}

pub fn leases_lost(count: usize) {
    counter!("oncegate_leases_lost_total").increment(count as u64);
}

/// What is seldom counted is there from the start, so that the first time is seen as a change.
pub fn begin() {
    LazyLock::force(&REPLAYS);
    LazyLock::force(&OPERATIONS);
    fenced_writes(0);
    leases_lost(0);
    purged(0);
    for outcome in [Settlement::Succeeded, Settlement::Failed, Settlement::Unknown] {
        settlements(outcome, 0);
    }
}

pub fn in_flight(requests: usize) {
    static IN_FLIGHT: LazyLock<Gauge> = LazyLock::new(|| gauge!("oncegate_in_flight_requests"));
    IN_FLIGHT.set(requests as f64);
}

pub fn upstream_connections(idle: usize, in_use: usize) {
    gauge!("oncegate_upstream_connections", "state" => "idle").set(idle as f64);
    gauge!("oncegate_upstream_connections", "state" => "in_use").set(in_use as f64);
}

/// How a silent record was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    Succeeded,
    Failed,
    Unknown,
}

pub fn settled(outcome: Settlement) {
    settlements(outcome, 1);
}

fn settlements(outcome: Settlement, count: u64) {
    let outcome = match outcome {
        Settlement::Succeeded => "succeeded",
        Settlement::Failed => "failed",
        Settlement::Unknown => "unknown",
    };
    counter!("oncegate_settled_total", "outcome" => outcome).increment(count);
}

pub fn purged(records: u64) {
    counter!("oncegate_purged_records_total").increment(records);
}

pub fn tier_up(tier: Tier, up: bool) {
    gauge!("oncegate_tier_up", "tier" => tier.as_str()).set(f64::from(u8::from(up)));
}

/// What is open in the durable tier, as any instance sees it.
pub fn open_records(processing: u64, stuck: u64, unknown: u64, oldest: Duration) {
    gauge!("oncegate_processing_records").set(processing as f64);
    gauge!("oncegate_stuck_records").set(stuck as f64);
    gauge!("oncegate_unknown_records").set(unknown as f64);
    gauge!("oncegate_oldest_processing_age_seconds").set(oldest.as_secs_f64());
}
