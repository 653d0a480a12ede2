//! What no log, no message and no `Debug` shows.
//!
//! A token is masked as a whole, a URL only in its password, because which database it is and under
//! which name is what an operator looks for.

use std::fmt;

use super::effective::quote;
use super::mistakes::Wrong;
use super::setting::{Reading, Setting, unexpected};
use super::tree::Value;

const MASK: &str = "***";
/// How SQLite's own tools write a database without a file.
const IN_MEMORY: &str = "sqlite://:memory:";

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

/// A URL that may carry a password.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(Box<str>);

impl Secret {
    /// None when the text could not be sent in a header.
    pub fn new(text: &str) -> Option<Self> {
        let visible = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        visible.then(|| Self(text.into()))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl SecretUrl {
    pub fn new(text: &str) -> Result<Self, url::ParseError> {
        url::Url::parse(text).map(|_| Self(text.into()))
    }

    pub(super) fn known(text: &'static str) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn scheme(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// Whether this is a database that is gone with its process.
    pub(super) fn is_in_memory(&self) -> bool {
        self.0.starts_with(IN_MEMORY)
            || self.0.starts_with("sqlite::memory:")
            || self.scheme() == "sqlite" && self.0.contains("mode=memory")
    }

    fn mask(&self) -> String {
        let (start, query) = match self.0.split_once('?') {
            Some((start, query)) => (start, Some(query)),
            None => (&*self.0, None),
        };
        let mut shown = mask_userinfo(start);
        if let Some(query) = query {
            let (query, fragment) = query.split_at(query.find('#').unwrap_or(query.len()));
            let parameters: Vec<_> = query.split('&').map(mask_parameter).collect();
            shown.extend(["?", &parameters.join("&"), fragment]);
        }
        shown
    }
}

/// `scheme://user:password@host…`
fn mask_userinfo(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '#']).unwrap_or(rest.len()));
    match authority.rsplit_once('@').and_then(|(info, host)| Some((info.split_once(':')?, host))) {
        Some(((user, _), host)) => format!("{scheme}://{user}:{MASK}@{host}{rest}"),
        None => url.to_owned(),
    }
}

/// Some drivers take passwords as parameters, under names of their own.
fn mask_parameter(parameter: &str) -> String {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let telling = name.to_ascii_lowercase();
    let secret = ["pass", "secret", "token", "pwd"].iter().any(|word| telling.contains(word));
    if secret && !value.is_empty() { format!("{name}={MASK}") } else { parameter.to_owned() }
}

impl Setting for Secret {
    const EXPECTED: &'static str = "a token of visible ASCII characters";

    fn read(value: &Value) -> Reading<Self> {
        let text = value.text().ok_or_else(|| unexpected::<Self>(value))?;
        Self::new(text).ok_or_else(|| vec![Wrong::new(format!("this is not {}", Self::EXPECTED))])
    }

    fn write(&self) -> String {
        quote(&self.0)
    }

    fn masked(&self) -> Option<String> {
        Some(quote(MASK))
    }
}

impl Setting for SecretUrl {
    const EXPECTED: &'static str = "a URL";

    /// The message does not repeat the text: where the password ends is what could not be told.
    fn read(value: &Value) -> Reading<Self> {
        let text = value.text().ok_or_else(|| unexpected::<Self>(value))?;
        match Self::new(text) {
            Ok(url) => Ok(url),
            // The fast tier's words are no URLs, nor is what the durable tier refuses in its own.
            Err(_) if matches!(text, "none" | "memory") || text.starts_with(IN_MEMORY) => {
                Ok(Self(text.into()))
            }
            Err(error) => {
                let wrong = Wrong::new(format!("this is not a URL: {error}"));
                Err(vec![match text.contains('@') {
                    true => wrong.hint("write / : @ ? # in a password as %2F %3A %40 %3F %23"),
                    false => wrong,
                }])
            }
        }
    }

    fn write(&self) -> String {
        quote(&self.0)
    }

    fn masked(&self) -> Option<String> {
        Some(quote(&self.mask())).filter(|shown| *shown != self.write())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretUrl").field(&self.mask()).finish()
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mask())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("s3cret").unwrap();
        assert_eq!(format!("{secret} {secret:?}"), "*** Secret(***)");
        assert_eq!(secret.expose(), "s3cret");
        assert_eq!(Secret::new(""), None);
        assert_eq!(Secret::new("two words"), None);
    }

    #[test]
    fn a_url_is_shown_without_its_passwords() {
        for (url, shown) in [
            ("mysql://og:p%40ss@db/og?ssl-mode=required", "mysql://og:***@db/og?ssl-mode=required"),
            ("redis://:pw@cache:6379/0", "redis://:***@cache:6379/0"),
            ("mysql://u:a@b@db/x", "mysql://u:***@db/x"),
            (
                "redis-sentinel://h:1?sentinelPassword=x#f",
                "redis-sentinel://h:1?sentinelPassword=***#f",
            ),
            ("sqlite:///data/a:b@c.db", "sqlite:///data/a:b@c.db"),
            ("postgres://user@db/x?password=a&b=c", "postgres://user@db/x?password=***&b=c"),
            ("memory:", "memory:"),
        ] {
            let url = SecretUrl::new(url).unwrap();
            assert_eq!(url.to_string(), shown);
            assert!(format!("{url:?}").contains(shown));
        }
    }
}
