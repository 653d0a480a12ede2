//! What was counted since the start, summed over all routes: read from the exposition, so that the
//! hot path counts everything once.

use std::collections::BTreeMap;

use super::metrics::{Outcome, Tier};

/// Counts by the word that tells them apart; a word that was never counted is zero.
#[derive(Debug, PartialEq, Eq)]
pub struct Totals {
    pub requests: BTreeMap<&'static str, u64>,
    pub conflicts: BTreeMap<&'static str, u64>,
    pub replays: BTreeMap<&'static str, u64>,
}

impl Totals {
    pub(super) fn read(exposition: &str) -> Self {
        let sum = |metric, label, words: &[&'static str]| {
            let sums = words.iter().map(|word| (*word, sum(exposition, metric, label, word)));
            sums.collect()
        };
        Self {
            requests: sum("oncegate_requests_total", "outcome", &Outcome::ALL.map(Outcome::as_str)),
            conflicts: sum("oncegate_conflicts_total", "kind", &["in_progress", "mismatch"]),
            replays: sum("oncegate_replays_total", "tier", &Tier::ALL.map(Tier::as_str)),
        }
    }
}

/// Of all series of a counter that have this label. Quotes within a label's value are escaped, so
/// that no route's path can look like another label.
fn sum(exposition: &str, metric: &str, label: &str, word: &str) -> u64 {
    let labelled = [format!("{{{label}=\"{word}\""), format!(",{label}=\"{word}\"")];
    let series = exposition.lines().filter(|line| {
        let labels = line.strip_prefix(metric).filter(|labels| labels.starts_with('{'));
        labels.is_some_and(|labels| labelled.iter().any(|text| labels.contains(text)))
    });
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_over_routes_and_a_path_is_no_label() {
        let totals = Totals::read(
            "# TYPE oncegate_requests_total counter\n\
             oncegate_requests_total{route=\"/a/{*rest}\",outcome=\"replayed\"} 3\n\
             oncegate_requests_total{outcome=\"replayed\",route=\"/b 7\"} 4\n\
             oncegate_requests_total{route=\"/,outcome=\\\"replayed\\\"\",outcome=\"executed\"} 100\n\
             oncegate_requests_total_of_something{outcome=\"replayed\"} 1000\n\
             oncegate_replays_total{tier=\"fast\"} 5\n",
        );
        assert_eq!(totals.requests["replayed"], 7);
        assert_eq!(totals.requests["executed"], 100);
        assert_eq!((totals.requests.len(), totals.requests["bypassed"]), (9, 0));
        assert_eq!(totals.conflicts, BTreeMap::from([("in_progress", 0), ("mismatch", 0)]));
        assert_eq!(totals.replays["fast"], 5);
    }
}
