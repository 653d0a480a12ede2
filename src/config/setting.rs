//! What can stand behind a key: how it is read, and how it is written back.
//!
//! A flag and a variable carry only text, so every setting can be read from text as well; a list is
//! then split at its commas. For what may be absent, the empty string says so.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::{HeaderName, Method, StatusCode};

use super::effective::quote;
use super::mistakes::Wrong;
use super::tree::{Member, Node, Table, Value};

pub type Reading<T> = Result<T, Vec<Wrong>>;

pub trait Setting: Sized {
    /// Completes "expected …" and "… is not".
    const EXPECTED: &'static str;

    fn read(value: &Value) -> Reading<Self>;

    /// As TOML that `read` takes.
    fn write(&self) -> String;

    /// What is shown instead of `write`, where that would give a secret away.
    fn masked(&self) -> Option<String> {
        None
    }
}

pub fn unexpected<T: Setting>(value: &Value) -> Vec<Wrong> {
    vec![Wrong::new(format!("expected {}, found {}", T::EXPECTED, value.kind()))]
}

/// For settings that are a string in the file.
pub fn from_text<T: Setting>(value: &Value, parse: impl Fn(&str) -> Option<T>) -> Reading<T> {
    let text = value.text().ok_or_else(|| unexpected::<T>(value))?;
    parse(text).ok_or_else(|| vec![Wrong::new(format!("{text:?} is not {}", T::EXPECTED))])
}

fn integer<T: Setting>(value: &Value) -> Reading<i64> {
    match &value.node {
        Node::Integer(integer) => Ok(*integer),
        Node::Loose(text) => text
            .trim()
            .parse()
            .map_err(|_| vec![Wrong::new(format!("{text:?} is not {}", T::EXPECTED))]),
        _ => Err(unexpected::<T>(value)),
    }
}

impl Setting for u32 {
    const EXPECTED: &'static str = "a whole number";

    fn read(value: &Value) -> Reading<Self> {
        let number = integer::<Self>(value)?;
        Self::try_from(number)
            .map_err(|_| vec![Wrong::new(format!("{number} is not between 0 and {}", Self::MAX))])
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for bool {
    const EXPECTED: &'static str = "true or false";

    fn read(value: &Value) -> Reading<Self> {
        match &value.node {
            Node::Boolean(boolean) => Ok(*boolean),
            Node::Loose(text) => from_text(value, |_| text.trim().parse().ok()),
            _ => Err(unexpected::<Self>(value)),
        }
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for SocketAddr {
    const EXPECTED: &'static str = "an IP address and a port, such as \"127.0.0.1:8080\"";

    fn read(value: &Value) -> Reading<Self> {
        from_text(value, |text| match text.strip_prefix("localhost:") {
            Some(port) => port.parse().ok().map(|port| Self::from(([127, 0, 0, 1], port))),
            None => text.parse().ok(),
        })
    }

    fn write(&self) -> String {
        quote(&self.to_string())
    }
}

impl Setting for PathBuf {
    const EXPECTED: &'static str = "a path";

    fn read(value: &Value) -> Reading<Self> {
        from_text(value, |text| (!text.is_empty()).then(|| text.into()))
    }

    fn write(&self) -> String {
        quote(&self.to_string_lossy())
    }
}

impl Setting for Method {
    const EXPECTED: &'static str = "a method in capitals, such as \"POST\"";

    fn read(value: &Value) -> Reading<Self> {
        from_text(value, |text| {
            let small = text.bytes().any(|b| b.is_ascii_lowercase());
            Self::from_bytes(text.as_bytes()).ok().filter(|_| !small)
        })
    }

    fn write(&self) -> String {
        quote(self.as_str())
    }
}

impl Setting for HeaderName {
    const EXPECTED: &'static str = "the name of a header";

    fn read(value: &Value) -> Reading<Self> {
        from_text(value, |text| text.parse().ok())
    }

    fn write(&self) -> String {
        quote(self.as_str())
    }
}

impl Setting for StatusCode {
    const EXPECTED: &'static str = "a status of an error, 400 to 599";

    fn read(value: &Value) -> Reading<Self> {
        let number = integer::<Self>(value)?;
        u16::try_from(number)
            .ok()
            .and_then(|code| Self::from_u16(code).ok())
            .filter(|status| status.is_client_error() || status.is_server_error())
            .ok_or_else(|| vec![Wrong::new(format!("{number} is not {}", Self::EXPECTED))])
    }

    fn write(&self) -> String {
        self.as_str().to_owned()
    }
}

/// The empty string is none.
impl<T: Setting> Setting for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read(value: &Value) -> Reading<Self> {
        match value.text() {
            Some("") => Ok(None),
            _ => T::read(value).map(Some),
        }
    }

    fn write(&self) -> String {
        self.as_ref().map_or_else(|| quote(""), T::write)
    }

    fn masked(&self) -> Option<String> {
        self.as_ref().and_then(T::masked)
    }
}

/// Every wrong item is named; an item that stands there twice is one of them.
impl<T: Setting> Setting for Vec<T> {
    const EXPECTED: &'static str = "an array";

    fn read(value: &Value) -> Reading<Self> {
        let parts: Vec<_>;
        let items = match &value.node {
            Node::List(items) => items,
            Node::Loose(text) => {
                let part = |part: &str| Value::loose(value.origin.clone(), part.trim());
                parts = text.split(',').map(part).collect();
                &parts
            }
            _ => return Err(unexpected::<Self>(value)),
        };
        let (mut list, mut wrongs, mut seen) = (Self::new(), Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            let mut wrong =
                |wrong: Wrong| wrongs.push(wrong.inside(&format!("[{index}]"), &item.origin));
            match T::read(item) {
                Ok(setting) if seen.contains(&setting.write()) => {
                    wrong(Wrong::new(format!("{} is there twice", setting.write())));
                }
                Ok(setting) => {
                    seen.push(setting.write());
                    list.push(setting);
                }
                Err(several) => several.into_iter().for_each(wrong),
            }
        }
        if wrongs.is_empty() { Ok(list) } else { Err(wrongs) }
    }

    fn write(&self) -> String {
        format!("[{}]", self.iter().map(T::write).collect::<Vec<_>>().join(", "))
    }
}

/// The members of an inline table, each asked for once; what was not asked for is unknown.
pub struct Members<'v> {
    table: &'v Table,
    asked: Vec<&'static str>,
    pub wrongs: Vec<Wrong>,
}

impl<'v> Members<'v> {
    pub fn of<T: Setting>(value: &'v Value) -> Reading<Self> {
        match &value.node {
            Node::Table(table) => Ok(Self { table, asked: Vec::new(), wrongs: Vec::new() }),
            _ => Err(unexpected::<T>(value)),
        }
    }

    pub fn get<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        self.asked.push(key);
        let Member { value, .. } = self.table.get(key)?;
        match T::read(value) {
            Ok(setting) => return Some(setting),
            Err(wrongs) => wrongs.into_iter().for_each(|wrong| self.wrong(key, wrong)),
        }
        None
    }

    pub fn wrong(&mut self, key: &str, wrong: Wrong) {
        let wrong = match self.table.get(key) {
            Some(member) => wrong.inside(&format!(".{key}"), &member.value.origin),
            None => wrong,
        };
        self.wrongs.push(wrong);
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The setting, if nothing about it is wrong.
    pub fn finish<T>(mut self, setting: Option<T>) -> Reading<T> {
        for (key, Member { origin, .. }) in self.table {
            if !self.asked.contains(&key.as_str()) {
                let unknown = Wrong::unknown_key(key, self.asked.iter().copied());
                self.wrongs.push(unknown.inside(&format!(".{key}"), origin));
            }
        }
        match setting {
            Some(setting) if self.wrongs.is_empty() => Ok(setting),
            _ => Err(self.wrongs),
        }
    }
}

/// Settings that are one of a few words.
macro_rules! words {
    ($type:ty, $expected:literal, $($word:literal => $value:path),+ $(,)?) => {
        impl $crate::config::setting::Setting for $type {
            const EXPECTED: &'static str = $expected;

            fn read(
                value: &$crate::config::tree::Value,
            ) -> $crate::config::setting::Reading<Self> {
                $crate::config::setting::from_text(value, |text| match text {
                    $($word => Some($value),)+
                    _ => None,
                })
            }

            fn write(&self) -> String {
                match self {
                    $($value => concat!("\"", $word, "\"").to_owned(),)+
                }
            }
        }
    };
}
pub(super) use words;
