//! `oncegate records show`: one record in words, its life in the order of time, and, where there is
//! none, where else its key is.

use std::fmt::Write;

use bytes::Bytes;
use clap::Args;
use http::Method;
use serde::Deserialize;

use super::admin::{Admin, Refusal, Reply};
use super::record::{Record, Response, Retries};
use super::text::{columns, escaped, quoted, shortened, span};
use super::{Named, Place, Trouble};
use crate::clock::Timestamp;
use crate::engine::inspect::Kind;

const BODY_LENGTH: usize = 2000;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    pub(super) place: Place,
}

pub async fn run(options: &Options, admin: &Admin) -> Result<String, Trouble> {
    let (given, record) = find(&options.named, admin).await?;
    if options.place.json {
        return Ok(format!("{}\n", String::from_utf8_lossy(&given)));
    }
    let mut text = in_words(&record);
    if !matches!(record.state, Kind::Succeeded) && !record.is_running(record.now()) {
        let command = command("resolve", &record);
        let _ = writeln!(text, "\nTo settle it:\n  {command} --outcome succeeded|failed|retry");
    }
    Ok(text)
}

/// The record, as it came and as it was understood.
pub async fn find(named: &Named, admin: &Admin) -> Result<(Bytes, Record), Trouble> {
    let query = [("tenant", &*named.tenant), ("scope", &named.scope), ("key", named.key())];
    match admin.ask(Method::GET, "/api/record", &query, Vec::new()).await? {
        Reply::Given(given) => {
            let record = admin.read(&given)?;
            Ok((given, record))
        }
        Reply::Refused(refusal) if refusal.code == "record-not-found" => {
            Err(missing(named, &refusal, admin).await?)
        }
        Reply::Refused(refusal) => Err(admin.refused(&refusal)),
    }
}

/// There is none: who forgot it, and where else there is one with this key.
async fn missing(named: &Named, refusal: &Refusal, admin: &Admin) -> Result<Trouble, Trouble> {
    #[derive(Deserialize)]
    struct Page {
        records: Vec<Record>,
    }
    let tenant = match named.tenant.as_str() {
        "" => "without a tenant".to_owned(),
        tenant => format!("of the tenant {}", escaped(tenant)),
    };
    let (key, scope) = (escaped(named.key()), escaped(&named.scope));
    let mut why = format!(
        "there is no record with the key {key} in the scope {scope} {tenant}, or it has expired."
    );
    for line in &refusal.audit {
        let _ = write!(why, "\n  {}  {}", moment(line.at), line.told());
    }
    let query = [("key", named.key()), ("limit", "5")];
    let page = match admin.ask(Method::GET, "/api/records", &query, Vec::new()).await? {
        Reply::Given(given) => admin.read::<Page>(&given)?,
        Reply::Refused(refusal) => return Err(admin.refused(&refusal)),
    };
    if !page.records.is_empty() {
        why.push_str("\nThe same key is elsewhere:");
    }
    for record in &page.records {
        let _ = write!(why, "\n  {}", command("show", record));
    }
    Ok(Trouble::NotPossible(why))
}

/// What to type for this record.
pub fn command(verb: &str, record: &Record) -> String {
    let mut command = format!("oncegate records {verb}");
    for (name, value) in [("scope", &record.scope), ("tenant", &record.tenant)] {
        if !value.is_empty() {
            let _ = write!(command, " --{name} {}", quoted(value));
        }
    }
    let dashes = if record.key.starts_with('-') { "-- " } else { "" };
    format!("{command} {dashes}{}", quoted(&record.key))
}

pub fn in_words(record: &Record) -> String {
    let mut lines = vec![("state", format!("{}: {}", record.state.as_str(), meaning(record)))];
    lines.push(("attempts", record.attempt.to_string()));
    if let Some(response) = &record.response {
        lines.push(("answer", answer(response)));
        for (name, value) in &response.headers {
            lines.push(("", format!("{}: {}", escaped(name), escaped(value))));
        }
        if let Some(body) = response.body.as_ref().filter(|body| !body.is_empty()) {
            lines.push(("", shortened(body, BODY_LENGTH)));
        }
    }
    if let Some(reference) = &record.result_ref {
        lines.push(("result", escaped(reference)));
    }
    lines.push(("retries", retries(record).to_owned()));
    if record.state == Kind::Unknown {
        lines.push((
            "",
            "(they run it again where its route has when_unknown = \"retry\")".to_owned(),
        ));
    }
    if let Some(fingerprint) = &record.fingerprint {
        lines.push(("fingerprint", escaped(fingerprint)));
    }
    let rows: Vec<_> =
        lines.into_iter().map(|(name, value)| vec![format!("  {name}"), value]).collect();
    let mut text = format!("{}\n", record.named());
    for line in columns(&rows, &[]) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "\nits life, in UTC");
    for line in columns(&life(record), &[1]) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn meaning(record: &Record) -> &'static str {
    match record.state {
        Kind::Processing if record.is_running(record.now()) => "it runs",
        Kind::Processing => "it was begun, and whoever ran it has gone silent",
        Kind::Succeeded => "it is done",
        Kind::Failed => "it failed",
        Kind::Unknown => "it was sent, and nobody knows what became of it",
    }
}

fn answer(response: &Response) -> String {
    match (response.body_stored, response.body_bytes) {
        (Some(false), _) => format!("{}, not stored", response.status),
        (_, Some(bytes)) => format!("{}, {bytes} bytes", response.status),
        _ => response.status.to_string(),
    }
}

fn retries(record: &Record) -> &'static str {
    let stored = record.response.as_ref().and_then(|response| response.body_stored) != Some(false);
    match (record.state, record.retries) {
        (Kind::Processing, _) if record.is_running(record.now()) => {
            "wait for its answer, or get 409 (in-progress)"
        }
        (Kind::Processing, _) => "get 409 until the reconciler or an operator settles it",
        (Kind::Succeeded, _) | (_, Some(Retries::Replay)) if stored => "get this answer",
        (Kind::Succeeded, _) | (_, Some(Retries::Replay)) => "get 409 (response-not-stored)",
        (Kind::Failed, Some(Retries::Execute)) => "run it again",
        (Kind::Failed, _) => "are refused with 409 (attempt-failed)",
        (Kind::Unknown, _) => "get 409 (outcome-unknown) until a probe or an operator settles it",
    }
}

/// Everything with a time, in its order: when, how long ago, what.
fn life(record: &Record) -> Vec<Vec<String>> {
    let now = record.now();
    let mut events = vec![(record.created_at, "the first request came".to_owned())];
    let error = record.last_error.as_deref().map_or_else(String::new, escaped);
    if let Some(at) = record.last_error_at {
        events.push((at, format!("went wrong: {error}")));
    }
    events.push((
        record.updated_at,
        match record.state {
            Kind::Processing => format!("attempt {} began", record.attempt),
            Kind::Succeeded => "done".to_owned(),
            Kind::Failed => format!("attempt {} failed", record.attempt),
            Kind::Unknown => format!("attempt {} was given up: outcome unknown", record.attempt),
        },
    ));
    events.extend(record.audit.iter().map(|line| (line.at, line.told())));
    if let Some(at) = record.lease_until {
        let ends = if at > now { "its lease ends" } else { "its lease ended" };
        events.push((at, ends.to_owned()));
    }
    // When an unknown one may run again depends on its route.
    if let Some(at) = record.next_retry_at.filter(|_| record.state == Kind::Failed) {
        events.push((at, "from here on a retry runs it again".to_owned()));
    }
    if let Some(at) = record.expires_at {
        events.push((at, "expires: the key is new again".to_owned()));
    }
    events.push((now, "now".to_owned()));
    events.sort_by_key(|(at, _)| *at);
    let row = |(at, what): (Timestamp, String)| {
        let when = match at {
            at if at > now => format!("in {}", span(at.since(now))),
            at if what != "now" || at < now => format!("{} ago", span(now.since(at))),
            _ => String::new(),
        };
        vec![format!("  {}", moment(at)), when, what]
    };
    events.into_iter().map(row).collect()
}

/// To the second, without the letters of RFC 3339.
fn moment(at: Timestamp) -> String {
    at.to_string().chars().take(19).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn a_record_is_told_with_its_life_in_order() {
        let record = record(json!({
            "tenant": "acme", "state": "SUCCEEDED", "attempt": 2,
            "updated_at": "2026-11-18T13:19:00.000Z", "expires_at": "2026-11-19T13:19:00.000Z",
            "last_error": "status 502", "last_error_at": "2026-11-18T13:14:00.000Z",
            "response": { "status": 201, "headers": [["x-paid", "yes"]], "body_stored": true,
                          "body_bytes": 8, "body": "{\"id\":7}" },
            "audit": [{ "at": "2026-11-18T13:18:59.900Z", "actor": "operator",
                        "action": "resolved as succeeded", "note": "seen at the bank" }],
        }));
        let told = "\
order-7, scope payment, tenant acme
  state     SUCCEEDED: it is done
  attempts  2
  answer    201, 8 bytes
            x-paid: yes
            {\"id\":7}
  retries   get this answer

its life, in UTC
  2026-11-18 13:13:59  6m ago  the first request came
  2026-11-18 13:14:00  6m ago  went wrong: status 502
  2026-11-18 13:18:59  1m ago  resolved as succeeded by operator: seen at the bank
  2026-11-18 13:19:00  1m ago  done
  2026-11-18 13:20:00          now
  2026-11-19 13:19:00  in 23h  expires: the key is new again
";
        assert_eq!(in_words(&record), told);
    }

    #[test]
    fn what_to_type_names_the_whole_identity() {
        let known = record(json!({ "tenant": "a b", "key": "-x" }));
        let command = command("show", &known);
        assert_eq!(command, "oncegate records show --scope payment --tenant 'a b' -- -x");
    }
}
