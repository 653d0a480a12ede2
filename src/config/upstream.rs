//! The API behind the gateway: one or several addresses of the same service.
//!
//! An address is a scheme, a host and a port. A path would have to be put in front of every
//! request's own, and then the fingerprint's path and the upstream's would be two things.

use std::fmt;
use std::sync::Arc;

use url::Url;

use super::effective::quote;
use super::mistakes::Wrong;
use super::setting::{Reading, Setting, unexpected};
use super::tree::{Node, Value};

/// Cheap to clone; two routes with equal addresses share an upstream.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Upstream(Arc<[Url]>);

/// One address, as it is read.
struct Address(Url);

impl Upstream {
    /// Stands in for one that is missing or wrong.
    pub(super) fn none() -> Self {
        Self(Arc::new([]))
    }

    /// At least one, each `http` or `https` with a host and nothing behind the port.
    pub fn addresses(&self) -> &[Url] {
        &self.0
    }
}

impl Setting for Upstream {
    const EXPECTED: &'static str = "a URL such as \"http://127.0.0.1:9000\", or an array of them";

    fn read(value: &Value) -> Reading<Self> {
        let addresses = match &value.node {
            Node::Text(_) => vec![Address::read(value)?],
            Node::Loose(_) | Node::List(_) => Vec::<Address>::read(value)?,
            _ => return Err(unexpected::<Self>(value)),
        };
        match addresses.is_empty() {
            true => Err(vec![Wrong::new("an upstream has at least one address")]),
            false => Ok(Self(addresses.into_iter().map(|Address(url)| url).collect())),
        }
    }

    fn write(&self) -> String {
        match &*self.0 {
            [url] => quote(shown(url)),
            urls => {
                let urls: Vec<_> = urls.iter().map(|url| quote(shown(url))).collect();
                format!("[{}]", urls.join(", "))
            }
        }
    }
}

impl Setting for Address {
    const EXPECTED: &'static str = "a URL such as \"http://127.0.0.1:9000\"";

    fn read(value: &Value) -> Reading<Self> {
        let text = value.text().ok_or_else(|| unexpected::<Self>(value))?;
        let wrong = |what: String| Err(vec![Wrong::new(what)]);
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(_) => return wrong(format!("this is not {}", Self::EXPECTED)),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("an upstream's URL has no user and no password".into());
        }
        if !matches!(url.scheme(), "http" | "https") {
            return wrong(format!("{text:?} does not start with http:// or https://"));
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            let hint = format!("write {}", quote(&url.origin().ascii_serialization()));
            let what = "an upstream's URL ends with its host and port; requests keep their path";
            return Err(vec![Wrong::new(what).hint(hint)]);
        }
        Ok(Self(url))
    }

    fn write(&self) -> String {
        quote(shown(&self.0))
    }
}

/// Without the slash that stands for no path.
fn shown(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(shown).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::super::mistakes::Origin;
    use super::*;

    fn read(text: &str) -> Result<Upstream, String> {
        let value = Value { origin: Origin::Nowhere, node: Node::Text(text.into()) };
        Upstream::read(&value).map_err(|wrongs| wrongs[0].what.clone())
    }

    #[test]
    fn an_address_is_scheme_host_and_port() {
        for text in ["http://127.0.0.1:9000", "https://api.example.com", "http://[::1]:1"] {
            assert_eq!(read(text).map(|upstream| upstream.to_string()), Ok(text.into()));
        }
        for text in
            ["", "api:9000", "ftp://a", "http://", "http://a/v1", "http://a?b", "http://a#b", "a,b"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        let message = read("http://me:hunter2@api").unwrap_err();
        assert!(!message.contains("hunter2"), "{message}");
    }

    #[test]
    fn text_from_a_flag_may_name_several_addresses() {
        let value = Value::loose(Origin::Nowhere, "http://a:1, http://b:2");
        assert_eq!(Upstream::read(&value).unwrap().addresses().len(), 2);
    }
}
