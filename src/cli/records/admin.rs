//! The admin API as its client sees it: what it gave, what it refused, or why nobody answered.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::record::AuditLine;
use super::text::escaped;
use super::{Place, Trouble};
use crate::config::{Environment, Secret, SecretUrl};
use crate::http::client::{CallError, Target};

const USUAL: &str = "http://127.0.0.1:8081";
const LIMIT: Duration = Duration::from_secs(30);
/// A record with its body, in base64.
const MAX_BYTES: usize = 256 << 20;

pub struct Admin {
    target: Target,
    /// As it may be shown: without a password.
    place: String,
    bearer: Option<HeaderValue>,
}

pub enum Reply {
    Given(Bytes),
    Refused(Refusal),
}

/// A problem document.
#[derive(Deserialize)]
pub struct Refusal {
    pub code: String,
    pub title: String,
    pub detail: String,
    /// What operators did to a record that is gone.
    #[serde(default)]
    pub audit: Vec<AuditLine>,
}

/// Whoever gives the address that the gateway listens on means the one to reach it at: every address
/// of a machine is its own, too.
fn as_url(given: &str) -> String {
    if given.contains("://") {
        return given.to_owned();
    }
    match given.parse::<SocketAddr>() {
        Ok(mut address) if address.ip().is_unspecified() => {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
            format!("http://{address}")
        }
        _ => format!("http://{given}"),
    }
}

impl Admin {
    pub(super) fn new(place: &Place, environment: &Environment) -> Result<Self, Trouble> {
        let url = &as_url(place.admin.as_deref().or(environment.admin()).unwrap_or(USUAL));
        let token = place.token.as_deref().or(environment.admin_token());
        let usage = |why: &str| Trouble::Usage(why.to_owned());
        // What is no URL may still hold a password: it is not repeated.
        let shown = SecretUrl::new(url).ok();
        let shown = shown.filter(|url| matches!(url.scheme(), "http" | "https"));
        let shown = shown.ok_or_else(|| {
            usage("--admin (ONCEGATE_ADMIN) is a URL or an address such as http://127.0.0.1:8081")
        })?;
        let target = Target::new(url, LIMIT, MAX_BYTES)
            .map_err(|error| Trouble::Usage(format!("--admin (ONCEGATE_ADMIN): {error}")))?;
        let bearer = match token {
            None => None,
            Some(token) => {
                let secret = Secret::new(token).ok_or_else(|| {
                    usage("--token (ONCEGATE_ADMIN_TOKEN) is not made of visible ASCII characters")
                })?;
                let value = HeaderValue::try_from(format!("Bearer {}", secret.expose()));
                let mut value = value.map_err(|_| usage("--token cannot be sent in a header"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self { target, place: shown.to_string().trim_end_matches('/').to_owned(), bearer })
    }

    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        json: Vec<u8>,
    ) -> Result<Reply, Trouble> {
        let mut headers = HeaderMap::new();
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
        let answer = self.target.below(path, query).send(method, headers, json).await;
        let answer = answer.map_err(|error| self.silent(&error))?;
        if answer.status.is_success() {
            return Ok(Reply::Given(answer.body));
        }
        match serde_json::from_slice(&answer.body) {
            Ok(refusal) => Ok(Reply::Refused(refusal)),
            Err(_) => Err(self.somebody_else(&format!("it answered {}", answer.status))),
        }
    }

    /// What was given, as the type that it should be.
    pub fn read<T: DeserializeOwned>(&self, given: &[u8]) -> Result<T, Trouble> {
        serde_json::from_slice(given).map_err(|error| self.somebody_else(&error.to_string()))
    }

    /// A refusal that needs no more than being told.
    pub fn refused(&self, refusal: &Refusal) -> Trouble {
        let place = &self.place;
        let why = match refusal.code.as_str() {
            "token-missing" => format!(
                "{place} asks for a token. Set ONCEGATE_ADMIN_TOKEN to the gateway's admin.token, \
                 or give --token."
            ),
            "token-wrong" => format!(
                "{place} does not take this token. It has to be the gateway's admin.token \
                 (admin.read_token may only look); see ONCEGATE_ADMIN_TOKEN and --token."
            ),
            "not-found" | "method-not-allowed" => {
                return self.somebody_else("it knows no records");
            }
            _ => format!("{}. {}", escaped(&refusal.title), escaped(&refusal.detail)),
        };
        match refusal.code.as_str() {
            "bad-request" => Trouble::Usage(why),
            _ => Trouble::NotPossible(why),
        }
    }

    fn silent(&self, error: &CallError) -> Trouble {
        Trouble::NotPossible(format!(
            "{} cannot be reached: {}. Is the gateway running, and is this its admin listener? \
             Its first line says where that is; name it with --admin URL or ONCEGATE_ADMIN.",
            self.place,
            escaped(&error.to_string())
        ))
    }

    pub fn somebody_else(&self, why: &str) -> Trouble {
        Trouble::NotPossible(format!(
            "what answers at {} does not seem to be the admin listener of oncegate: {}. Clients \
             have another port; name this one with --admin URL or ONCEGATE_ADMIN.",
            self.place,
            escaped(why)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_scheme_is_asked_over_http_and_one_of_every_address_here() {
        for (given, url) in [
            ("https://gate:8081", "https://gate:8081"),
            ("127.0.0.1:9", "http://127.0.0.1:9"),
            ("gate.example:9", "http://gate.example:9"),
            ("localhost:9", "http://localhost:9"),
            ("0.0.0.0:9", "http://127.0.0.1:9"),
            ("[::]:9", "http://[::1]:9"),
        ] {
            assert_eq!(as_url(given), url);
        }
    }
}
