//! Every metric name, in one place.

use metrics::counter;

/// Where an answer, or an error, came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    Local,
    Fast,
    Durable,
}

impl Tier {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Fast => "fast",
            Self::Durable => "durable",
        }
    }
}

pub fn replay(tier: Tier) {
    counter!("oncegate_replays_total", "tier" => tier.as_str()).increment(1);
}

pub fn tier_error(tier: Tier, operation: &'static str) {
    counter!("oncegate_tier_errors_total", "tier" => tier.as_str(), "op" => operation).increment(1);
}

pub fn fenced_write() {
    counter!("oncegate_fenced_writes_total").increment(1);
}

pub fn leases_lost(count: usize) {
    counter!("oncegate_leases_lost_total").increment(count as u64);
}
