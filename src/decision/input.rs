//! What a request of the decision API may say, checked member by member.
//!
//! Members that are not known are left alone, so that a workflow may send its whole context. Known
//! ones are held to their type, length and range. Whole numbers may come as text, and nothing as an
//! empty one: that is how workflow engines fill in templates.

use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::http::Problem;
use crate::http::incoming::{self, invalid};
use crate::idempotency::key::KeyRules;
use crate::idempotency::{Fingerprint, Identity, Key, Scope, Tenant, Token};

const MAX_BYTES: usize = 1 << 20;
const TTL_MAX_SECONDS: u64 = 7 * 24 * 3600;
const FINGERPRINT_MAX_CHARACTERS: usize = 1024;
const REFERENCE_MAX_CHARACTERS: usize = 255;

#[derive(Debug)]
pub struct Input(Map<String, Value>);

impl Input {
    pub async fn read(request: Request<Incoming>) -> Result<Self, Problem> {
        incoming::object(request, MAX_BYTES).await.map(Self)
    }

    pub fn identity(&self) -> Result<Identity, Problem> {
        let scope = self.required("scope")?;
        let scope = Scope::new(scope).map_err(|error| invalid(format!("scope: {error}.")))?;
        let key = self.required("idempotency_key")?;
        let key = Key::new(key, &KeyRules::any_text())
            .map_err(|error| invalid(format!("idempotency_key: {error}.")))?;
        let tenant = self.text("tenant")?.map_or_else(Tenant::none, Tenant::from_text);
        Ok(Identity::new(tenant, scope, key))
    }

    pub fn fingerprint(&self) -> Result<Option<Fingerprint>, Problem> {
        let text = self.short("payload_fingerprint", FINGERPRINT_MAX_CHARACTERS)?;
        Ok(text.map(Fingerprint::of_text))
    }

    pub fn ttl(&self) -> Result<Duration, Problem> {
        Ok(Duration::from_secs(self.number("ttl_seconds", (1, TTL_MAX_SECONDS))?.unwrap_or(900)))
    }

    pub fn max_attempts(&self) -> Result<u32, Problem> {
        let number = self.number("max_attempts", (1, 1_000_000))?;
        Ok(number.and_then(|n| u32::try_from(n).ok()).unwrap_or(10))
    }

    pub fn attempt_count(&self) -> Result<Option<u32>, Problem> {
        let number = self.number("attempt_count", (1, u64::from(u32::MAX)))?;
        Ok(number.and_then(|n| u32::try_from(n).ok()))
    }

    pub fn base_retry(&self) -> Result<Duration, Problem> {
        Ok(Duration::from_secs(self.number("base_retry_seconds", (0, 86_400))?.unwrap_or(60)))
    }

    /// A text that no acquire gave out is nobody's token: it is fenced, not malformed.
    pub fn token(&self) -> Result<Option<Token>, Problem> {
        Ok(self.text("token")?.map(|text| Token(Uuid::try_parse(text).unwrap_or(Uuid::nil()))))
    }

    pub fn required_token(&self) -> Result<Token, Problem> {
        self.token()?.ok_or_else(|| invalid("token is missing: acquire gave it out."))
    }

    /// Errors come as objects as often as not: whatever it is, it is worth keeping.
    pub fn error_message(&self) -> String {
        match self.0.get("error_message") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    pub fn result(&self) -> Option<&Value> {
        self.0.get("result")
    }

    pub fn result_ref(&self) -> Result<Option<&str>, Problem> {
        let text = self.short("result_ref", REFERENCE_MAX_CHARACTERS)?;
        match text {
            Some(text) if text.chars().any(char::is_control) => {
                Err(invalid("result_ref has no control characters."))
            }
            text => Ok(text),
        }
    }

    pub fn required(&self, name: &str) -> Result<&str, Problem> {
        self.text(name)?.ok_or_else(|| invalid(format!("{name} is missing.")))
    }

    /// None when it is missing, null or empty.
    fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(invalid(format!("{name} is a string."))),
        }
    }

    fn short(&self, name: &str, max: usize) -> Result<Option<&str>, Problem> {
        match self.text(name)? {
            Some(text) if text.chars().count() > max => {
                Err(invalid(format!("{name} has at most {max} characters.")))
            }
            text => Ok(text),
        }
    }

    fn number(&self, name: &str, (min, max): (u64, u64)) -> Result<Option<u64>, Problem> {
        let number = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text.is_empty() => return Ok(None),
            Some(Value::Number(number)) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        match number {
            Some(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(invalid(format!("{name} is a whole number from {min} to {max}."))),
        }
    }
}

/// `60.0`: languages with one kind of number write whole ones like that, and JSON Schema calls it
/// an integer. Up to where each whole number still has a float of its own.
fn whole(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    is_whole.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input(value: Value) -> Input {
        let Value::Object(object) = value else { panic!("an object") };
        Input(object)
    }

    #[test]
    fn what_is_left_out_has_the_defaults_of_the_contract() {
        let input = input(json!({ "scope": "order", "idempotency_key": "1", "extra": {} }));
        assert!(input.identity().unwrap_or_else(|p| panic!("{}", p.detail)).tenant().is_none());
        assert_eq!(input.ttl().ok(), Some(Duration::from_secs(900)));
        assert_eq!(input.max_attempts().ok(), Some(10));
        assert_eq!(input.base_retry().ok(), Some(Duration::from_secs(60)));
        assert_eq!(input.fingerprint().ok(), Some(None));
    }

    #[test]
    fn a_number_may_come_as_text_and_an_empty_fingerprint_is_none() {
        let input =
            input(json!({ "attempt_count": "2", "ttl_seconds": 60.0, "payload_fingerprint": "" }));
        assert_eq!(input.attempt_count().ok(), Some(Some(2)));
        assert_eq!(input.ttl().ok(), Some(Duration::from_secs(60)));
        assert_eq!(input.fingerprint().ok(), Some(None));
    }

    #[test]
    fn an_empty_template_is_as_if_it_was_left_out() {
        let names = ["ttl_seconds", "max_attempts", "attempt_count", "base_retry_seconds"];
        let input = input(names.iter().map(|name| (name.to_string(), json!(""))).collect());
        assert_eq!(input.ttl().ok(), Some(Duration::from_secs(900)));
        assert_eq!(input.max_attempts().ok(), Some(10));
        assert_eq!(input.attempt_count().ok(), Some(None));
        assert_eq!(input.base_retry().ok(), Some(Duration::from_secs(60)));
    }

    #[test]
    fn an_error_that_is_no_text_is_kept_as_its_json() {
        for (error, kept) in [
            (json!("refused"), "refused"),
            (json!({ "code": 7, "why": "no" }), r#"{"code":7,"why":"no"}"#),
            (json!([1]), "[1]"),
            (json!(503), "503"),
            (json!(null), ""),
        ] {
            assert_eq!(input(json!({ "error_message": error })).error_message(), kept);
        }
    }

    #[test]
    fn wrong_types_lengths_and_ranges_are_named() {
        for (value, name) in [
            (json!({}), "scope"),
            (json!({ "scope": 7 }), "scope"),
            (json!({ "scope": "x".repeat(129) }), "scope"),
            (json!({ "scope": "s", "idempotency_key": "" }), "idempotency_key"),
            (json!({ "scope": "s", "idempotency_key": "k".repeat(256) }), "idempotency_key"),
            (json!({ "scope": "s", "idempotency_key": "k", "tenant": [] }), "tenant"),
        ] {
            let problem = input(value).identity().expect_err("it is refused");
            assert!(problem.detail.starts_with(name), "{}", problem.detail);
        }
        for ttl in [
            json!(0),
            json!(-1),
            json!(1.5),
            json!(-0.5),
            json!("soon"),
            json!(true),
            json!(604_801),
        ] {
            assert!(input(json!({ "ttl_seconds": ttl })).ttl().is_err(), "{ttl}");
        }
        assert!(input(json!({ "result_ref": "a\nb" })).result_ref().is_err());
    }
}
