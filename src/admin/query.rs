//! What the addresses of requests ask for. A name that means nothing is a mistake: a filter with a
//! slip of the pen must not list everything.

use std::time::Duration;

use serde::Deserialize;

use super::{bad_request, cursor};
use crate::config::parse_duration;
use crate::engine::inspect::{Kind, Listing, Position};
use crate::http::Problem;
use crate::idempotency::key::KeyRules;
use crate::idempotency::{Identity, Key, Scope, Tenant};

const LIMIT: u32 = 50;
pub const LIMIT_MAX: u32 = 500;
const NOTE_MAX_CHARACTERS: usize = 4000;

/// Whose record, as its three texts.
#[derive(Debug, Default, Deserialize)]
pub struct Named {
    #[serde(default)]
    pub tenant: String,
    pub scope: Option<String>,
    pub key: Option<String>,
}

impl Named {
    pub fn identity(&self) -> Result<Identity, Problem> {
        let key = self.key.as_deref().ok_or_else(|| bad_request("key is missing."))?;
        let key = Key::new(key, &KeyRules::any_text())
            .map_err(|error| bad_request(format!("key: {error}.")))?;
        let scope = match self.scope.as_deref() {
            Some(scope) => {
                Scope::new(scope).map_err(|error| bad_request(format!("scope: {error}.")))?
            }
            None => Scope::default(),
        };
        plain("tenant", &self.tenant)?;
        Ok(Identity::new(Tenant::from_stored(&self.tenant), scope, key))
    }
}

/// An empty value counts as not given, so that a form's empty fields filter nothing.
fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    url::form_urlencoded::parse(query.as_bytes()).into_owned()
}

pub fn listing(query: &str) -> Result<Listing, Problem> {
    let mut asked = Listing { limit: LIMIT, ..Listing::default() };
    for (name, value) in pairs(query).filter(|(_, value)| !value.is_empty()) {
        match name.as_str() {
            "state" => {
                let words = Kind::ALL.map(Kind::as_str).join(", ");
                let kind = Kind::parse(&value);
                asked.state =
                    Some(kind.ok_or_else(|| bad_request(format!("state is one of {words}.")))?);
            }
            "tenant" => asked.tenant = Some(plain("tenant", &value)?.to_owned()),
            "scope" => asked.scope = Some(plain("scope", &value)?.to_owned()),
            "key" => asked.key = Some(plain("key", &value)?.to_owned()),
            "older_than" => asked.older_than = duration(&value)?,
            "limit" => {
                let limit = value.parse().ok().filter(|limit| *limit > 0);
                let limit: u32 =
                    limit.ok_or_else(|| bad_request("limit is a number above zero."))?;
                asked.limit = limit.min(LIMIT_MAX);
            }
            "cursor" => {
                let position = cursor::read(&value);
                let unknown = || bad_request("cursor is not one that a page of this list named.");
                asked.after = Some(position.ok_or_else(unknown)?);
            }
            _ => return Err(unknown(&name)),
        }
    }
    let fits = match asked.after {
        None => true,
        Some(Position::Behind(..)) => asked.is_longest_first(),
        Some(Position::Below(_)) => !asked.is_longest_first(),
    };
    match fits {
        true => Ok(asked),
        false => Err(bad_request("cursor belongs to a list with other filters.")),
    }
}

/// No stored name has control characters, and not every database takes all of them.
fn plain<'v>(name: &str, value: &'v str) -> Result<&'v str, Problem> {
    match value.chars().any(char::is_control) {
        true => Err(bad_request(format!("{name} has a control character."))),
        false => Ok(value),
    }
}

fn duration(value: &str) -> Result<Duration, Problem> {
    let wrong = || bad_request("older_than is a duration such as 30s, 5m, 1h30m or 7d.");
    parse_duration(value).ok_or_else(wrong)
}

fn unknown(name: &str) -> Problem {
    let name: String = name.chars().take(50).collect();
    bad_request(format!("{name:?} is not a parameter of this request."))
}

/// The record that an address names, and the note beside it.
pub fn one(query: &str, with_note: bool) -> Result<(Identity, String), Problem> {
    let (mut named, mut reason) = (Named::default(), String::new());
    for (name, value) in pairs(query) {
        match name.as_str() {
            "tenant" => named.tenant = value,
            "scope" => named.scope = Some(value).filter(|scope| !scope.is_empty()),
            "key" => named.key = Some(value),
            "note" if with_note => reason = value,
            _ => return Err(unknown(&name)),
        }
    }
    Ok((named.identity()?, note(reason)?))
}

/// Why something was done, for whoever reads the trail later.
pub fn note(text: String) -> Result<String, Problem> {
    match text.chars().count() {
        ..=NOTE_MAX_CHARACTERS if !text.contains('\0') => Ok(text),
        ..=NOTE_MAX_CHARACTERS => Err(bad_request("note has a NUL character.")),
        _ => Err(bad_request(format!("note has more than {NOTE_MAX_CHARACTERS} characters."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_and_the_limit_is_capped() {
        let asked =
            listing("state=unknown&tenant=a%20b&scope=&key=&older_than=5m&limit=9999").unwrap();
        let expected = Listing {
            state: Some(Kind::Unknown),
            tenant: Some("a b".into()),
            older_than: Duration::from_secs(300),
            limit: LIMIT_MAX,
            ..Listing::default()
        };
        assert_eq!(asked, expected);
    }

    #[test]
    fn what_means_nothing_is_a_mistake() {
        for query in
            ["stat=UNKNOWN", "state=GONE", "older_than=5", "limit=0", "limit=x", "cursor=x"]
        {
            let problem = listing(query).unwrap_err();
            assert_eq!(problem.status, 400, "{query}");
        }
        let elsewhere = cursor::write(Position::Below(crate::idempotency::RecordId::fresh()));
        assert!(listing(&format!("cursor={elsewhere}")).is_ok());
        assert!(listing(&format!("state=FAILED&cursor={elsewhere}")).is_err());
        assert!(one("tenant=a&scope=b", false).is_err());
        for name in ["tenant=%00", "scope=%00", "key=%07"] {
            assert!(listing(name).is_err(), "{name}");
        }
        assert!(one("key=1&tenant=%00", false).is_err());
        assert!(one("key=1&note=x", false).is_err());
        assert_eq!(one("key=1&note=x", true).unwrap().1, "x");
    }
}
