//! The queries of `grafana/`, and the metric names in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A query, and where it stands.
#[derive(Clone)]
pub struct Query {
    pub place: String,
    pub text: String,
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana")
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub fn dashboards() -> Vec<(String, Value)> {
    let listed = std::fs::read_dir(folder().join("dashboards")).expect("there are dashboards");
    let named = listed.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
    let parsed = named.map(|name| {
        let text = read(&format!("dashboards/{name}"));
        let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name, value)
    });
    parsed.collect()
}

/// Without the rows, which only are headings.
pub fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    panels.filter(|panel| panel["type"] != "row")
}

/// Every query of every panel.
pub fn panel_queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for (name, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            let place = format!("{name}, {}", panel["title"]);
            let targets = panel["targets"].as_array().into_iter().flatten();
            queries.extend(targets.map(|target| Query {
                place: place.clone(),
                text: target["expr"].as_str().expect("a query is text").to_owned(),
            }));
        }
    }
    assert!(queries.len() > 20, "the panels were not found");
    queries
}

/// The values of a key such as `record` in the rules and alerts.
pub fn values<'a>(yaml: &'a str, key: &str) -> Vec<&'a str> {
    let lines = yaml.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).collect()
}

/// What a text calls by the names of metrics; the parts of a histogram by the histogram's own.
pub fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let ours = words.filter(|word| word.starts_with("oncegate_"));
    // A histogram's series are its own.
    let parts = ["_bucket", "_sum", "_count"];
    let whole =
        ours.map(|word| parts.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word));
    whole.map(ToOwned::to_owned).collect()
}
