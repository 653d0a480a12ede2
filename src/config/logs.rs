//! What is written to stderr about each request.

use super::reader::Reader;
use super::setting::words;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    pub access: AccessLog,
    pub format: LogFormat,
    pub keys: LoggedKeys,
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
