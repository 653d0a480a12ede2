//! `oncegate records list`: a table of records, page after page up to a limit.

use std::fmt::Write;
use std::io::IsTerminal;
use std::num::NonZeroU32;

use clap::Args;
use http::Method;
use serde_json::Value;

use super::admin::{Admin, Reply};
use super::record::Record;
use super::text::{columns, escaped, quoted, span};
use super::{Place, Trouble};
use crate::clock::Timestamp;
use crate::config::parse_duration;
use crate::engine::inspect::Kind;

/// The API's largest page.
const PAGE: u32 = 500;
/// The API looks at a bounded number of rows for each page: so many pages may hold nothing.
const MAX_EMPTY_PAGES: u32 = 100;
const TERMINAL: usize = 80;

#[derive(Args)]
pub struct Options {
    /// PROCESSING, SUCCEEDED, FAILED or UNKNOWN; with any of them but SUCCEEDED, what has waited
    /// longest comes first, else the newest
    #[arg(long, value_parser = state)]
    state: Option<Kind>,
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<String>,
    /// Only of this scope
    #[arg(long)]
    scope: Option<String>,
    /// Only with this key, in any scope and of any tenant
    #[arg(long)]
    key: Option<String>,
    /// Only what has not changed for so long: 30s, 5m, 1h30m, 7d
    #[arg(long, value_name = "TIME", value_parser = time)]
    older_than: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value = "50")]
    limit: NonZeroU32,
    /// Go on where an earlier list ended: what it said at its end
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

fn state(text: &str) -> Result<Kind, String> {
    Kind::parse(text).ok_or_else(|| format!("one of {}", Kind::ALL.map(Kind::as_str).join(", ")))
}

fn time(text: &str) -> Result<String, String> {
    let time = parse_duration(text).map(|_| text.to_owned());
    time.ok_or_else(|| "a time such as 30s, 5m, 1h30m or 7d".to_owned())
}

pub async fn run(options: &Options, admin: &Admin) -> Result<String, Trouble> {
    let list = List::read(options, admin).await?;
    if options.place.json {
        return Ok(format!("{}\n", list.whole));
    }
    let mut records = Vec::new();
    for record in list.whole["records"].as_array().into_iter().flatten() {
        records.push(admin.read::<Record>(record.to_string().as_bytes())?);
    }
    let now = list.whole["now"].as_str().and_then(Timestamp::parse);
    let narrow = std::io::stdout().is_terminal().then_some(TERMINAL);
    let mut text = match (records.is_empty(), options.filters().is_empty()) {
        (false, _) => table(&records, now, narrow),
        (true, true) => "There are no records yet.\n".to_owned(),
        (true, false) => "No records match.\n".to_owned(),
    };
    if let Some(cursor) = list.whole["next_cursor"].as_str() {
        text.push_str(&go_on(options, records.len(), cursor));
    }
    Ok(text)
}

/// Pages put together, in the shape of one.
struct List {
    whole: Value,
}

impl List {
    async fn read(options: &Options, admin: &Admin) -> Result<Self, Trouble> {
        let mut list: Option<Self> = None;
        let (mut wanted, mut empty) = (options.limit.get(), 0);
        let mut cursor = options.cursor.clone();
        loop {
            let limit = wanted.min(PAGE).to_string();
            let mut query = options.filters();
            query.push(("limit", &limit));
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page = match admin.ask(Method::GET, "/api/records", &query, Vec::new()).await? {
                Reply::Given(given) => admin.read::<Value>(&given)?,
                Reply::Refused(refusal) => return Err(admin.refused(&refusal)),
            };
            let Some(count) = page["records"].as_array().map(Vec::len) else {
                return Err(admin.somebody_else("it did not answer with a list of records"));
            };
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            empty = if count == 0 { empty + 1 } else { 0 };
            wanted = wanted.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
            let so_far = match list.take() {
                Some(list) => list.with(page),
                None => Self { whole: page },
            };
            if cursor.is_none() || wanted == 0 || empty == MAX_EMPTY_PAGES {
                return Ok(so_far);
            }
            list = Some(so_far);
        }
    }

    fn with(mut self, page: Value) -> Self {
        let Value::Object(page) = page else { return self };
        for (name, value) in page {
            match (self.whole[name.as_str()].as_array_mut(), value) {
                (Some(records), Value::Array(more)) => records.extend(more),
                // An empty page has no clock.
                (_, Value::Null) if name == "now" => {}
                (_, value) => self.whole[name] = value,
            }
        }
        self
    }
}

impl Options {
    fn filters(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("state", self.state.map(Kind::as_str)),
            ("tenant", self.tenant.as_deref()),
            ("scope", self.scope.as_deref()),
            ("key", self.key.as_deref()),
            ("older_than", self.older_than.as_deref()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// How to see what did not fit.
fn go_on(options: &Options, shown: usize, cursor: &str) -> String {
    let mut command = "oncegate records list".to_owned();
    for (name, value) in options.filters() {
        let _ = write!(command, " --{} {}", name.replace('_', "-"), quoted(value));
    }
    let what = match shown < options.limit.get() as usize {
        true => format!("{shown} found so far; not all records were looked at."),
        false => format!("{shown} shown; there are more."),
    };
    let bigger = options.limit.get().saturating_mul(10);
    format!(
        "\n{what} To go on, or to see more at once:\n  \
         {command} --cursor {}\n  {command} --limit {bigger}\n",
        quoted(cursor)
    )
}

/// One line for each. Where that is too wide for a terminal, what happened stands below its record,
/// and the key comes last: it is never cut, since the next command needs it.
fn table(records: &[Record], now: Option<Timestamp>, width: Option<usize>) -> String {
    let now = |record: &Record| now.unwrap_or_else(|| record.now());
    let mut rows = vec![
        ["STATE", "SCOPE", "KEY", "TENANT", "ATTEMPT", "AGE", "WHAT HAPPENED"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for record in records {
        let tenant = match record.tenant.as_str() {
            "" => "-".to_owned(),
            tenant => escaped(tenant),
        };
        rows.push(vec![
            record.state.as_str().to_owned(),
            escaped(&record.scope),
            escaped(&record.key),
            tenant,
            record.attempt.to_string(),
            span(record.age(now(record))),
            record.happened(now(record)),
        ]);
    }
    let lines = columns(&rows, &[4, 5]);
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    if width.is_none_or(|width| widest <= width) {
        return lines.join("\n") + "\n";
    }
    let order = [0, 5, 4, 1, 2];
    let first: Vec<Vec<_>> =
        rows.iter().map(|row| order.map(|column| row[column].clone()).to_vec()).collect();
    let mut text = String::new();
    for (place, (line, row)) in columns(&first, &[1, 2]).iter().zip(&rows).enumerate() {
        text.push_str(line);
        text.push('\n');
        if place > 0 {
            let _ = writeln!(text, "  {}", row[6]);
            if row[3] != "-" {
                let _ = writeln!(text, "  tenant {}", row[3]);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::tests::{NOW, record};
    use super::*;

    #[test]
    fn a_table_is_aligned_and_wraps_only_where_it_is_too_wide() {
        let key = "2f6f0d9e-8d1c-4f0a-9a93-3d3d1c1b2b4e";
        let records = [
            record(json!({ "last_error": "status 502" })),
            record(json!({ "key": key, "tenant": "acme\u{7}", "attempt": 12, "state": "SUCCEEDED",
                           "response": { "status": 201 } })),
        ];
        let now = Timestamp::parse(NOW);
        let wide = "\
STATE      SCOPE    KEY                                   TENANT     ATTEMPT  AGE  WHAT HAPPENED
UNKNOWN    payment  order-7                               -                1   6m  outcome unknown: status 502
SUCCEEDED  payment  2f6f0d9e-8d1c-4f0a-9a93-3d3d1c1b2b4e  acme\\u{7}       12   6m  answered 201
";
        assert_eq!(table(&records, now, None), wide);
        let narrow = "\
STATE      AGE  ATTEMPT  SCOPE    KEY
UNKNOWN     6m        1  payment  order-7
  outcome unknown: status 502
SUCCEEDED   6m       12  payment  2f6f0d9e-8d1c-4f0a-9a93-3d3d1c1b2b4e
  answered 201
  tenant acme\\u{7}
";
        assert_eq!(table(&records, now, Some(80)), narrow);
        let small = table(&records[..1], now, Some(80));
        assert_eq!(small, table(&records[..1], now, None), "it fits");
    }

    #[test]
    fn pages_become_one_list_in_the_shape_of_a_page() {
        let list = List { whole: json!({ "records": [1], "next_cursor": "a", "now": NOW }) };
        let list = list.with(json!({ "records": [2, 3], "next_cursor": null, "now": null }));
        assert_eq!(list.whole, json!({ "records": [1, 2, 3], "next_cursor": null, "now": NOW }));
    }
}
