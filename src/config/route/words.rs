//! The settings that only routes have, as they are written in the file.

use std::num::NonZeroU32;

use http::HeaderName;

use crate::config::effective::quote;
use crate::config::mistakes::Wrong;
use crate::config::setting::{Members, Reading, Setting, from_text, unexpected, words};
use crate::config::tree::{Node, Value};
use crate::config::units::Rate;
use crate::idempotency::canonical_json::{Pointer, Selection};
use crate::idempotency::fingerprint::{BodyRule, FingerprintRules, QueryRule};
use crate::idempotency::key::KeyPattern;
use crate::idempotency::{Scope, WhenFailed, WhenUnknown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    /// Everything is forwarded; what would have happened is recorded and counted.
    Shadow,
    Off,
}

/// Whether a request must have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Required,
    Optional,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFrom {
    Header(HeaderName),
    Body(Pointer),
    /// The fingerprint is the key.
    Digest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantFrom {
    /// Set by a trusted layer.
    Header(HeaderName),
    Credential,
    None,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub per: Per,
    pub rate: Rate,
    pub burst: NonZeroU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    Tenant,
    ClientIp,
}

/// A regular expression and its text.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    pub pattern: KeyPattern,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyWord {
    Raw,
    Json,
}

/// The `fingerprint` table.
pub struct FingerprintSetting {
    body: BodyWord,
    query: bool,
    fields: Option<Vec<Pointer>>,
    ignore: Vec<Pointer>,
    headers: Vec<HeaderName>,
}

pub struct RateLimitSetting(pub Option<RateLimit>);

words!(Mode, "\"enforce\", \"shadow\" or \"off\"",
    "enforce" => Mode::Enforce, "shadow" => Mode::Shadow, "off" => Mode::Off);
words!(Need, "\"required\" or \"optional\"",
    "required" => Need::Required, "optional" => Need::Optional);
words!(Per, "\"tenant\" or \"client_ip\"",
    "tenant" => Per::Tenant, "client_ip" => Per::ClientIp);
words!(BodyWord, "\"raw\" or \"json\"",
    "raw" => BodyWord::Raw, "json" => BodyWord::Json);
words!(WhenFailed, "\"retry\", \"replay\" or \"reject\"",
    "retry" => WhenFailed::Retry, "replay" => WhenFailed::Replay, "reject" => WhenFailed::Reject);
words!(WhenUnknown, "\"hold\" or \"retry\"",
    "hold" => WhenUnknown::Hold, "retry" => WhenUnknown::Retry);

impl Default for KeyFrom {
    fn default() -> Self {
        Self::Header(HeaderName::from_static("idempotency-key"))
    }
}

impl Setting for KeyFrom {
    const EXPECTED: &'static str =
        "\"header:Idempotency-Key\", \"body:/json/pointer\" or \"digest\"";

    fn read(value: &Value) -> Reading<Self> {
        from_text(value, |text| match text.split_once(':') {
            Some(("header", name)) => name.parse().ok().map(Self::Header),
            // The whole body is no string.
            Some(("body", pointer)) if !pointer.is_empty() => {
                Pointer::parse(pointer).ok().map(Self::Body)
            }
            _ => (text == "digest").then_some(Self::Digest),
        })
    }

    fn write(&self) -> String {
        match self {
            Self::Header(name) => quote(&format!("header:{name}")),
            Self::Body(pointer) => quote(&format!("body:{}", pointer.as_str())),
            Self::Digest => quote("digest"),
        }
    }
}

impl Setting for TenantFrom {
    const EXPECTED: &'static str = "\"header:X-Tenant-Id\", \"credential\" or \"none\"";

    fn read(value: &Value) -> Reading<Self> {
        from_text(value, |text| match text {
            "credential" => Some(Self::Credential),
            "none" => Some(Self::None),
            _ => text.strip_prefix("header:")?.parse().ok().map(Self::Header),
        })
    }

    fn write(&self) -> String {
        match self {
            Self::Header(name) => quote(&format!("header:{name}")),
            Self::Credential => quote("credential"),
            Self::None => quote("none"),
        }
    }
}

impl Setting for Scope {
    const EXPECTED: &'static str = "a scope";

    fn read(value: &Value) -> Reading<Self> {
        let text = value.text().ok_or_else(|| unexpected::<Self>(value))?;
        Self::new(text).map_err(|error| vec![Wrong::new(error.to_string())])
    }

    fn write(&self) -> String {
        quote(self.as_str())
    }
}

impl Setting for Pointer {
    const EXPECTED: &'static str = "a JSON pointer such as \"/amount\"";

    fn read(value: &Value) -> Reading<Self> {
        from_text(value, |text| Self::parse(text).ok())
    }

    fn write(&self) -> String {
        quote(self.as_str())
    }
}

impl Setting for Pattern {
    const EXPECTED: &'static str = "a regular expression that the whole key matches";

    fn read(value: &Value) -> Reading<Self> {
        let text = value.text().ok_or_else(|| unexpected::<Self>(value))?.to_owned();
        match KeyPattern::matching(&text) {
            Ok(pattern) => Ok(Self { text, pattern }),
            Err(error) => Err(vec![Wrong::new(error.to_string())]),
        }
    }

    fn write(&self) -> String {
        quote(&self.text)
    }
}

impl FingerprintSetting {
    pub fn rules(self) -> FingerprintRules {
        let body = match self.body {
            BodyWord::Raw => BodyRule::Raw,
            BodyWord::Json => {
                BodyRule::Json(Selection { fields: self.fields, ignore: self.ignore })
            }
        };
        let query = if self.query { QueryRule::Counts } else { QueryRule::Ignored };
        FingerprintRules::new(body, query, self.headers.iter().map(HeaderName::as_str))
    }
}

impl Default for FingerprintSetting {
    fn default() -> Self {
        let (ignore, headers) = (Vec::new(), Vec::new());
        Self { body: BodyWord::Raw, query: true, fields: None, ignore, headers }
    }
}

impl Setting for FingerprintSetting {
    const EXPECTED: &'static str = "a table such as { body = \"json\", query = true }";

    fn read(value: &Value) -> Reading<Self> {
        let mut members = Members::of::<Self>(value)?;
        let setting = Self {
            body: members.get("body").unwrap_or(BodyWord::Raw),
            query: members.get("query").unwrap_or(true),
            fields: members.get("fields"),
            ignore: members.get("ignore").unwrap_or_default(),
            headers: members.get("headers").unwrap_or_default(),
        };
        let equal = "it would make all requests of a path equal";
        if setting.fields.as_ref().is_some_and(Vec::is_empty) {
            members.wrong("fields", Wrong::new(equal).hint("name at least one field"));
        }
        if setting.ignore.iter().any(|pointer| pointer.as_str().is_empty()) {
            let what = format!("\"\" is the whole body: {equal}");
            members.wrong("ignore", Wrong::new(what).hint("name what does not count"));
        }
        if members.has("fields") && members.has("ignore") {
            members.wrong("ignore", Wrong::new("fields is given too; leave one of them out"));
        }
        for key in ["fields", "ignore"] {
            if members.has(key) && setting.body == BodyWord::Raw {
                members.wrong(key, Wrong::new("a raw body has no fields").hint("body = \"json\""));
            }
        }
        members.finish(Some(setting))
    }

    fn write(&self) -> String {
        let mut table = format!("{{ body = {}, query = {}", self.body.write(), self.query);
        if let Some(fields) = &self.fields {
            table.push_str(&format!(", fields = {}", fields.write()));
        }
        if !self.ignore.is_empty() {
            table.push_str(&format!(", ignore = {}", self.ignore.write()));
        }
        if !self.headers.is_empty() {
            table.push_str(&format!(", headers = {}", self.headers.write()));
        }
        table + " }"
    }
}

impl Setting for RateLimitSetting {
    const EXPECTED: &'static str =
        "\"none\" or a table such as { per = \"tenant\", rate = \"100/s\", burst = 200 }";

    fn read(value: &Value) -> Reading<Self> {
        if !matches!(value.node, Node::Table(_)) {
            return from_text(value, |text| matches!(text, "none" | "").then_some(Self(None)));
        }
        let mut members = Members::of::<Self>(value)?;
        let (per, rate) = (members.get("per"), members.get::<Rate>("rate"));
        let burst = members.get::<u32>("burst").map(NonZeroU32::new);
        if burst == Some(None) {
            members.wrong("burst", Wrong::new("it would let nothing through"));
        }
        for key in ["per", "rate"] {
            if !members.has(key) {
                members.wrong(key, Wrong::new(format!("{key} is missing")));
            }
        }
        // A burst is by default what the rate lets through in one period.
        let limit = per.zip(rate).map(|(per, rate)| {
            Self(Some(RateLimit { per, rate, burst: burst.flatten().unwrap_or(rate.count) }))
        });
        members.finish(limit)
    }

    fn write(&self) -> String {
        match &self.0 {
            None => quote("none"),
            Some(RateLimit { per, rate, burst }) => {
                format!("{{ per = {}, rate = {}, burst = {burst} }}", per.write(), rate.write())
            }
        }
    }
}
