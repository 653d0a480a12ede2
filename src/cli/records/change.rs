//! `oncegate records resolve` and `forget`: what is there, what will follow, a yes, and only then
//! the change.

use std::fmt::Write;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use super::admin::{Admin, Reply};
use super::confirm::{self, Consent};
use super::record::Record;
use super::show::{self, in_words};
use super::text::escaped;
use super::{Named, Place, Trouble};
use crate::engine::inspect::Kind;

#[derive(Args)]
pub struct Resolve {
    #[command(flatten)]
    named: Named,
    /// What really happened to the operation
    #[arg(long, value_enum)]
    outcome: Outcome,
    /// The answer that retries get, with the outcome succeeded: its status [default: 200]
    #[arg(long, value_parser = clap::value_parser!(u16).range(200..600))]
    status: Option<u16>,
    /// A header of that answer, such as 'Content-Type: application/json'; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The body of that answer
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// A file with the body of that answer, byte for byte
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Args)]
pub struct Forget {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Args)]
struct Change {
    /// Why, for whoever reads the audit trail later
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
    /// Do not ask; for scripts
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Outcome {
    /// It happened: retries get the answer that is given here
    Succeeded,
    /// It did not happen and shall not: retries are refused
    Failed,
    /// It did not happen: the next request with this key runs it
    Retry,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is written as 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub async fn resolve(options: &Resolve, admin: &Admin) -> Result<String, Trouble> {
    let Resolve { named, outcome, change, place, .. } = options;
    let answer = options.answer()?;
    let consent = Consent::expected(change.yes)?;
    let (_, record) = show::find(named, admin).await?;
    if record.state == Kind::Succeeded {
        return Err(Trouble::NotPossible(format!(
            "{}: it succeeded, and an answer never changes. `oncegate records forget` makes the \
             key new again.",
            record.named()
        )));
    }
    change.agree(consent, &record, &options.follows(answer.as_ref()), named, admin).await?;
    let mut body = json!({
        "tenant": named.tenant, "scope": named.scope, "key": named.key(),
        "outcome": outcome.as_str(), "note": change.note,
    });
    if let Some(answer) = answer {
        body["response"] = answer.json();
    }
    let body = body.to_string().into_bytes();
    let done = admin.ask(Method::POST, "/api/record/resolve", &[], body).await?;
    let said = match outcome {
        Outcome::Succeeded => "resolved as succeeded",
        Outcome::Failed => "resolved as failed",
        Outcome::Retry => "resolved: a retry runs it again",
    };
    told(done, place, &format!("{}: {said}.", record.named()), admin)
}

pub async fn forget(options: &Forget, admin: &Admin) -> Result<String, Trouble> {
    let Forget { named, change, place } = options;
    let consent = Consent::expected(change.yes)?;
    let (_, record) = show::find(named, admin).await?;
    let follows = match record.state {
        Kind::Succeeded => {
            "The stored answer is lost, and the next request with this key runs the operation \
             again, though it has succeeded."
        }
        Kind::Failed => "The next request with this key is a new one and runs the operation.",
        Kind::Processing | Kind::Unknown => {
            "The next request with this key runs the operation, though it may have happened \
             already: then it happens twice. If you know what happened, resolve it instead."
        }
    };
    change.agree(consent, &record, follows, named, admin).await?;
    let query = [
        ("tenant", &*named.tenant),
        ("scope", &named.scope),
        ("key", named.key()),
        ("note", &change.note),
    ];
    let done = admin.ask(Method::DELETE, "/api/record", &query, Vec::new()).await?;
    told(done, place, &format!("{}: forgotten.", record.named()), admin)
}

fn told(done: Reply, place: &Place, said: &str, admin: &Admin) -> Result<String, Trouble> {
    match done {
        Reply::Given(given) if place.json => Ok(format!("{}\n", String::from_utf8_lossy(&given))),
        Reply::Given(_) => Ok(format!("{said}\n")),
        Reply::Refused(refusal) => Err(admin.refused(&refusal)),
    }
}

impl Change {
    /// Shows the record and what will follow, and waits for a yes.
    async fn agree(
        &self,
        consent: Consent,
        record: &Record,
        follows: &str,
        named: &Named,
        admin: &Admin,
    ) -> Result<(), Trouble> {
        if record.is_running(record.now()) {
            return Err(Trouble::NotPossible(format!(
                "{}: it is running. Look again when it has ended, or its lease is over.",
                record.named()
            )));
        }
        let note = match self.note.as_str() {
            "" => "none; --note tells others why".to_owned(),
            note => escaped(note),
        };
        let preview =
            format!("{}\nwhat will follow\n  {follows}\n  note: {note}", in_words(record));
        confirm::ask(consent, &preview)?;
        if consent == Consent::ToBeAsked {
            // Reading takes a while: what was agreed to was about this state of things.
            let (_, now) = show::find(named, admin).await?;
            if (now.attempt, now.state, now.updated_at)
                != (record.attempt, record.state, record.updated_at)
            {
                return Err(Trouble::NotPossible(
                    "nothing was changed: the record has changed meanwhile. Look at it again."
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Retry => "retry",
        }
    }
}

/// The answer that retries are to get.
struct Answer<'a> {
    status: u16,
    headers: &'a [(String, String)],
    body: Vec<u8>,
}

impl Answer<'_> {
    /// As the API takes it.
    fn json(&self) -> Value {
        let mut json = json!({ "status": self.status, "headers": self.headers });
        match str::from_utf8(&self.body) {
            Ok(text) => json["body"] = text.into(),
            Err(_) => json["body_base64"] = STANDARD.encode(&self.body).into(),
        }
        json
    }

    fn told(&self) -> String {
        let mut text = format!("Retries get {} and {} bytes", self.status, self.body.len());
        let kind = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let _ = match kind {
            Some((_, kind)) => write!(text, " of {}.", escaped(kind)),
            None if self.body.is_empty() => write!(text, "."),
            None => write!(text, " without a Content-Type; give it with --header."),
        };
        text
    }
}

impl Resolve {
    /// None: no answer was given.
    fn answer(&self) -> Result<Option<Answer<'_>>, Trouble> {
        let body = match (&self.body, &self.body_file) {
            (Some(text), _) => Some(text.clone().into_bytes()),
            (None, Some(path)) => Some(std::fs::read(path).map_err(|error| {
                Trouble::Usage(format!("--body-file {}: {error}", path.display()))
            })?),
            (None, None) => None,
        };
        if self.status.is_none() && self.headers.is_empty() && body.is_none() {
            return Ok(None);
        }
        if self.outcome != Outcome::Succeeded {
            return Err(Trouble::Usage(
                "--status, --header, --body and --body-file are the answer that retries get: they \
                 go with --outcome succeeded only."
                    .to_owned(),
            ));
        }
        Ok(Some(Answer {
            status: self.status.unwrap_or(200),
            headers: &self.headers,
            body: body.unwrap_or_default(),
        }))
    }

    fn follows(&self, answer: Option<&Answer<'_>>) -> String {
        let text = match (self.outcome, answer) {
            (Outcome::Succeeded, Some(answer)) => return answer.told(),
            (Outcome::Succeeded, None) => {
                "Retries learn that it was done, and that its answer is not stored: 409 \
                 (response-not-stored). --status, --header and --body give them an answer."
            }
            (Outcome::Failed, _) => {
                "Retries are refused with 409 (attempt-failed) until the record expires."
            }
            (Outcome::Retry, _) => {
                "The next request with this key runs the operation again. If it did happen after \
                 all, it happens twice."
            }
        };
        text.to_owned()
    }
}
