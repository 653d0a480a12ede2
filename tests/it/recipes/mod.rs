//! The recipes of deploy/RECIPES.md: every promise there, kept by a gateway that runs on the very
//! file of the recipe. Only addresses, and durations too long for a test, are replaced.

mod bay;
mod documents;
mod n8n;
mod patterns;
mod template;
mod two_tier;
mod workflow;

use std::path::Path;

use serde_json::Value;

use crate::gateway::Site;
use crate::support::{Answer, Ask, Gateway};

/// The text of a file of the repository.
fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A file of deploy/recipes.
#[derive(Clone)]
struct Recipe(String);

impl Recipe {
    fn read(name: &str) -> Self {
        Self(file(&format!("deploy/recipes/{name}.toml")))
    }

    /// With something else in place of this.
    ///
    /// # Panics
    /// When the recipe does not say this.
    fn with(self, said: &str, instead: &str) -> Self {
        assert!(self.0.contains(said), "the recipe does not say {said}");
        Self(self.0.replace(said, instead))
    }

    /// With something more.
    fn and(self, more: &str) -> Self {
        Self(format!("{}\n{more}\n", self.0))
    }

    /// A gateway on it, before the site's upstream and on its tiers.
    async fn gateway(&self, site: &Site) -> Gateway {
        site.gateway(&self.0).await
    }
}

/// The record of an identity, as an operator sees it; None: there is none.
async fn record(at: &Gateway, tenant: &str, scope: &str, key: &str) -> Option<Value> {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("tenant", tenant).append_pair("scope", scope).append_pair("key", key);
    let path = format!("/api/record?{}", query.finish());
    let answer = Ask::new(at.admin(), "GET", &path).send().await;
    match answer.status {
        404 => None,
        200 => Some(member(&answer.json(), "record")),
        _ => panic!("{answer:?}"),
    }
}

/// The member, or the whole where there is none.
fn member(document: &Value, name: &str) -> Value {
    document.get(name).unwrap_or(document).clone()
}

/// Seconds since 1970 of a time in JSON, such as `2026-02-28T09:00:00.000Z`.
#[track_caller]
fn seconds(time: &Value) -> f64 {
    let text = time.as_str().unwrap_or_else(|| panic!("no time: {time}"));
    let numbers: Vec<f64> = text
        .trim_end_matches('Z')
        .split(['-', 'T', ':'])
        .map(|number| number.parse().unwrap_or_else(|e| panic!("{text}: {e}")))
        .collect();
    let [year, month, day, hour, minute, second] = numbers[..] else { panic!("no time: {text}") };
    // Years that begin in March end with their leap day.
    let (year, month) = if month > 2.0 { (year, month - 3.0) } else { (year - 1.0, month + 9.0) };
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days = year * 365.0 + leap_days + ((153.0 * month + 2.0) / 5.0).floor() + day - 719_469.0;
    ((days * 24.0 + hour) * 60.0 + minute) * 60.0 + second
}

#[test]
fn times_are_read() {
    for (text, at) in [
        ("1970-01-01T00:00:00.000Z", 0.0),
        ("2000-03-01T00:00:00Z", 951_868_800.0),
        ("2024-02-29T12:34:56.500Z", 1_709_210_096.5),
    ] {
        assert_eq!(seconds(&text.into()), at, "{text}");
    }
}

/// Forwarded as it came: nothing about idempotency in the answer.
#[track_caller]
fn assert_untouched(answer: &Answer) {
    assert_eq!(answer.all("Idempotency-Status"), [""; 0], "{answer:?}");
}
