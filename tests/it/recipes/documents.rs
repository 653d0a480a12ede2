//! The document says what the files say, every row has its test, and every test its row.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Recipe, file};
use crate::gateway::PROGRAM;
use crate::support::Launch;

const RECIPES: [&str; 5] = ["bay", "patterns", "template", "n8n", "two-tier"];
/// The sources of the tests that the document names, by the word before `::`.
const TESTS: [(&str, &[&str]); 5] = [
    ("bay", &["bay", "documents"]),
    ("patterns", &["patterns"]),
    ("template", &["template"]),
    ("n8n", &["n8n", "workflow"]),
    ("two_tier", &["two_tier", "documents"]),
];

/// What `oncegate check` says of a configuration that it accepts.
async fn checked(toml: &str) -> String {
    let ended = Launch::command(PROGRAM, &["check"]).config(toml).ended().await;
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    ended.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recipe_is_accepted_and_stands_in_the_document() {
    let document = file("deploy/RECIPES.md");
    for name in RECIPES {
        let recipe = Recipe::read(name).0;
        checked(&recipe).await;
        assert!(document.contains(&format!("```toml\n{recipe}```\n")), "{name}.toml has changed");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/recipes");
    let files = std::fs::read_dir(folder).expect("it can be listed").count();
    assert_eq!(files, RECIPES.len(), "a recipe that nobody tests");
    assert!(file("README.md").contains("deploy/RECIPES.md"));
}

/// The functions of a source file that are tests, or promises which a macro makes tests of.
fn promises(source: &str) -> BTreeSet<String> {
    let text = file(&format!("tests/it/recipes/{source}.rs"));
    let list = text.split("on_both_pairs!(").nth(1).and_then(|rest| rest.split(");").next());
    let listed = list.unwrap_or_default().lines().map(|line| line.trim().trim_end_matches(','));
    let tested = text.split("test(flavor = \"multi_thread\")]\n").skip(1).chain(
        // Those that need no runtime.
        text.split("#[test]\n").skip(1),
    );
    let names = tested.filter_map(|rest| rest.split_once("fn ")?.1.split('(').next());
    listed.chain(names).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_row_has_its_test_and_every_test_its_row() {
    let document = file("deploy/RECIPES.md");
    for (word, sources) in TESTS {
        let named: BTreeSet<String> = document
            .split(&format!("`{word}::"))
            .skip(1)
            .filter_map(|rest| rest.split('`').next().map(str::to_owned))
            .collect();
        let promised: BTreeSet<_> = sources.iter().flat_map(|source| promises(source)).collect();
        let missing: Vec<_> = named.difference(&promised).collect();
        assert_eq!(missing, [""; 0], "{word}: no such test");
        let unnamed: Vec<_> = promises(sources[0]).difference(&named).cloned().collect();
        assert_eq!(unnamed, [""; 0], "{word}: no row tells of it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usual_retention_is_a_day() {
    let recipe = Recipe::read("bay").with("ttl = \"24h\"\n", "");
    assert!(checked(&recipe.0).await.contains("\nttl = \"24h\"\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn five_minutes_alert_and_ten_settle() {
    let effective = checked(&Recipe::read("two-tier").0).await;
    for line in ["stuck_after = \"5m\"", "settle_after = \"10m\""] {
        assert!(effective.contains(&format!("\n{line}\n")), "{line}: {effective}");
    }
    let alerts = file("grafana/prometheus/alerts.yml");
    let oldest = "expr: max by (job) (oncegate_oldest_processing_age_seconds)";
    for (alert, condition) in [
        ("OncegateProcessingTooOld", &*format!("{oldest} > 300")),
        ("OncegateNotSettled", &*format!("{oldest} > 600")),
        ("OncegateHitRatioSurge", "oncegate:hit_ratio:5m > "),
    ] {
        let text = alerts.split(&format!("- alert: {alert}\n")).nth(1).expect("it is there");
        assert!(
            text.split("- alert:").next().is_some_and(|one| one.contains(condition)),
            "{alert}"
        );
    }
}
