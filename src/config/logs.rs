//! What is told about each request: lines on stderr, and spans to whoever collects traces.

use super::mistakes::Wrong;
use super::reader::Reader;
use super::secret::SecretUrl;
use super::sections::scheme_of;
use super::setting::words;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    pub access: AccessLog,
    pub format: LogFormat,
    pub keys: LoggedKeys,
}

/// OpenTelemetry, over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    pub endpoint: Option<SecretUrl>,
    /// Of the traces that begin here.
    pub sample_percent: u32,
}

/// Which requests get a line; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessLog {
    Off,
    /// What was refused, failed or is unknown.
    Problems,
    Keyed,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, for programs elsewhere.
    Auto,
    Human,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedKeys {
    /// A short digest: enough to find the lines of one key.
    Hash,
    Clear,
}

words!(AccessLog, "\"off\", \"problems\", \"keyed\" or \"all\"",
    "off" => AccessLog::Off, "problems" => AccessLog::Problems, "keyed" => AccessLog::Keyed,
    "all" => AccessLog::All);
words!(LogFormat, "\"auto\", \"human\" or \"json\"",
    "auto" => LogFormat::Auto, "human" => LogFormat::Human, "json" => LogFormat::Json);
words!(LoggedKeys, "\"hash\" or \"clear\"",
    "hash" => LoggedKeys::Hash, "clear" => LoggedKeys::Clear);

impl Logs {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("logs");
        let logs = Self {
            access: section.get("access", AccessLog::Problems),
            format: section.get("format", LogFormat::Auto),
            keys: section.get("keys", LoggedKeys::Hash),
        };
        section.done(&[]);
        logs
    }
}

impl Traces {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("traces");
        let collected = |url: &Option<SecretUrl>| match url {
            None => Ok(()),
            Some(_) if !cfg!(feature = "otel") => {
                let what = "this build collects no traces";
                Err(Wrong::new(what).hint("build it with --features otel, or leave it out"))
            }
            // The exporter has no TLS: a collector beside the gateway takes it from there.
            Some(url) => scheme_of(url, &["http"], "http://"),
        };
        let traces = Self {
            endpoint: section.get_if("endpoint", None, collected),
            sample_percent: section.within("sample_percent", 100, (0, 100)),
        };
        section.done(&[]);
        traces
    }
}
