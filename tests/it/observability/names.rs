//! Nothing is asked for that nobody counts, and every alert and panel leads somewhere.

use std::collections::BTreeSet;

use super::files::{self, dashboards, metrics, panels, values};

/// Section 8 of the contract.
const CONTRACT: &[&str] = &[
    "oncegate_requests_total",
    "oncegate_replays_total",
    "oncegate_conflicts_total",
    "oncegate_processing_records",
    "oncegate_stuck_records",
    "oncegate_unknown_records",
    "oncegate_oldest_processing_age_seconds",
    "oncegate_request_duration_seconds",
    "oncegate_upstream_duration_seconds",
    "oncegate_tier_duration_seconds",
    "oncegate_tier_errors_total",
    "oncegate_tier_up",
    "oncegate_fenced_writes_total",
    "oncegate_leases_lost_total",
    "oncegate_settled_total",
    "oncegate_purged_records_total",
    "oncegate_rate_limited_total",
    "oncegate_upstream_connections",
    "oncegate_in_flight_requests",
];

/// Of our own.
const FURTHER: &[&str] = &["oncegate_group_commit_rows"];

fn used() -> BTreeSet<String> {
    let rules = ["prometheus/rules.yml", "prometheus/alerts.yml"].map(files::read);
    let boards = dashboards().into_iter().map(|(_, dashboard)| dashboard.to_string());
    rules.into_iter().chain(boards).flat_map(|text| metrics(&text)).collect()
}

fn counted() -> BTreeSet<String> {
    metrics(include_str!("../../../src/telemetry/metrics.rs"))
}

#[test]
fn every_metric_that_is_asked_for_is_counted() {
    let unknown: Vec<_> = used().difference(&counted()).cloned().collect();
    assert_eq!(unknown, [""; 0], "nobody counts these");
}

#[test]
fn every_metric_of_the_contract_is_shown() {
    let all = CONTRACT.iter().chain(FURTHER);
    assert_eq!(used(), all.map(ToString::to_string).collect());
}

#[test]
fn recorded_names_that_are_asked_for_are_recorded() {
    let rules = files::read("prometheus/rules.yml");
    let recorded = values(&rules, "record");
    let boards = dashboards().into_iter().map(|(_, dashboard)| dashboard.to_string());
    for text in boards.chain([files::read("prometheus/alerts.yml")]) {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        for word in words.filter(|word| word.starts_with("oncegate:") && word.len() > 9) {
            assert!(recorded.contains(&word), "{word} is not recorded");
        }
    }
    assert!(recorded.contains(&"oncegate:hit_ratio:5m"), "{recorded:?}");
}

#[test]
fn every_alert_has_its_section_in_the_runbook() {
    let alerts = files::read("prometheus/alerts.yml");
    let runbook = files::read("RUNBOOK.md");
    let names = values(&alerts, "alert");
    let links: Vec<_> =
        names.iter().map(|name| format!("grafana/RUNBOOK.md#{}", name.to_lowercase())).collect();
    assert_eq!(values(&alerts, "runbook_url"), links);
    let sections: Vec<_> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, names);
    for key in ["summary", "description"] {
        assert_eq!(values(&alerts, key).len(), names.len(), "each has a {key}");
    }
    assert_eq!(alerts.matches("labels: {severity: ").count(), names.len());
}

#[test]
fn every_panel_explains_itself_and_links_to_sections_that_exist() {
    let runbook = files::read("RUNBOOK.md").to_lowercase();
    for (name, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            let title = &panel["title"];
            assert!(panel["description"].as_str().is_some_and(|text| text.len() > 20), "{title}");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{name}, {title}");
            for link in panel["links"].as_array().into_iter().flatten() {
                let url = link["url"].as_str().unwrap_or_default();
                let anchor = url.split_once('#').map_or("", |(_, anchor)| anchor);
                assert!(runbook.contains(&format!("## {anchor}\n")), "{name}, {title}: {url}");
            }
        }
    }
}
