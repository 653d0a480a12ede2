//! What a gateway counts, read from the Prometheus text.

use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Metrics(Vec<Sample>);

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.filter_map(sample).collect())
    }

    /// The sum of all samples of this name that have these labels among theirs.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|(label, value)| {
                    sample.labels.get(*label).is_some_and(|other| other == value)
                })
        };
        self.0.iter().filter(fits).map(|sample| sample.value).sum()
    }

    /// How many requests came out like this.
    pub fn requests(&self, outcome: &str) -> f64 {
        self.sum("oncegate_requests_total", &[("outcome", outcome)])
    }

    /// Everything that stands in labels.
    pub fn label_values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|sample| sample.labels.values().map(String::as_str))
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split("\",").filter_map(|pair| {
        let (label, value) = pair.split_once("=\"")?;
        Some((label.trim().to_owned(), value.trim_end_matches('"').to_owned()))
    });
    Some(Sample { name: name.to_owned(), labels: labels.collect(), value: value.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_over_the_labels_that_are_not_named() {
        let metrics = Metrics::parse(
            "# TYPE r counter\nr{route=\"/a\",outcome=\"x\"} 2\nr{route=\"/{*b}\",outcome=\"x\"} 3\n\
             r{route=\"/a\",outcome=\"y\"} 5\nrr 7\n",
        );
        assert_eq!(metrics.sum("r", &[("outcome", "x")]), 5.0);
        assert_eq!(metrics.sum("r", &[("route", "/{*b}")]), 3.0);
        assert_eq!(metrics.sum("r", &[]), 10.0);
        assert_eq!(metrics.sum("rr", &[]), 7.0);
        assert_eq!(metrics.sum("none", &[]), 0.0);
    }
}
