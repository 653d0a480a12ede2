//! The folder tree is the architecture: who may know whom, checked on the source text.

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up; a module may use those on its left, never those on its right. Siblings that
/// share a layer never use each other.
const LAYERS: &[&[&str]] = &[
    &["clock", "telemetry"],
    &["idempotency"],
    &["store"],
    &["engine"],
    &["config"],
    &["http"],
    &["gateway", "decision", "admin", "jobs"],
    &["app", "lifecycle"],
    &["cli"],
];

/// What only one place may touch.
const CONFINED: &[(&str, &[&str])] = &[
    ("sqlx::", &["store/durable"]),
    ("fred::", &["store/fast"]),
    ("counter!(\"", &["telemetry"]),
    ("gauge!(\"", &["telemetry"]),
    ("histogram!(\"", &["telemetry"]),
    ("std::env::var", &["config"]),
    ("Instant::now", &["clock.rs"]),
    ("SystemTime::now", &["clock.rs"]),
    ("store::durable", &["store", "engine", "app.rs", "cli"]),
    (
        "tokio::spawn",
        &["store", "engine", "http", "gateway", "jobs", "app.rs", "lifecycle.rs", "cli"],
    ),
];

/// The pure core has none of these.
const IMPURE: &[&str] = &["tokio", "async fn", ".await", "std::fs", "std::net", "clock::now"];

struct Source {
    /// Below src, with forward slashes.
    path: String,
    /// Without comments and tests.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("src can be listed").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file is text");
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                let code: Vec<_> =
                    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
                let path = path.strip_prefix(&root).expect("it lies in src");
                let path = path.to_str().expect("paths are text").replace('\\', "/");
                sources.push(Source { path, code: code.join("\n") });
            }
        }
    }
    assert!(sources.len() > 20, "the sources were not found");
    sources
}

/// The module at the top that a file belongs to.
fn module(path: &str) -> &str {
    path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

#[test]
fn every_module_has_its_layer() {
    for Source { path, .. } in sources() {
        let known = matches!(path.as_str(), "main.rs" | "lib.rs") || layer(module(&path)).is_some();
        assert!(known, "src/{path}: which layer is it in?");
    }
}

#[test]
fn dependencies_point_down_only() {
    for Source { path, code } in sources() {
        let here = module(&path);
        let Some(own) = layer(here) else { continue };
        for other in LAYERS.iter().flat_map(|layer| layer.iter()) {
            let used = code.contains(&format!("crate::{other}::"))
                || code.contains(&format!("crate::{other};"));
            let below = layer(other).is_some_and(|other| other < own);
            assert!(
                !used || below || *other == here,
                "src/{path} uses {other}, which is not below it"
            );
        }
    }
}

#[test]
fn drivers_names_and_clocks_stay_where_they_belong() {
    for Source { path, code } in sources() {
        for (what, places) in CONFINED {
            let allowed = places.iter().any(|place| path.starts_with(place));
            assert!(
                allowed || !code.contains(what),
                "src/{path} has {what}, which is for {places:?}"
            );
        }
    }
}

#[test]
fn the_core_is_pure() {
    for Source { path, code } in sources() {
        if path.starts_with("idempotency/") {
            for what in IMPURE {
                assert!(!code.contains(what), "src/{path} has {what}");
            }
        }
    }
}

#[test]
fn files_open_with_what_they_are_and_stay_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for Source { path, code } in sources() {
        let text = fs::read_to_string(root.join(&path)).expect("a source file is text");
        assert!(text.starts_with("//! "), "src/{path} does not say what it is");
        assert!(code.lines().count() <= 450, "src/{path} is more than one thing");
    }
}
