//! The configuration in force, as TOML that reads back as the same configuration.
//!
//! Every key is there, in the order in which the code asks for it, wherever its value came from;
//! routes stand with all that they inherit. Secrets are masked in what is shown, and told apart in
//! what is compared.

use std::fmt;

use super::setting::Setting;

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Effective {
    blocks: Vec<Block>,
}

#[derive(Clone, PartialEq, Eq)]
struct Block {
    /// `admin`, or `routes[0]`; empty at the top.
    path: String,
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq)]
struct Entry {
    key: &'static str,
    plain: String,
    masked: Option<String>,
}

impl Effective {
    pub(super) fn add<T: Setting>(&mut self, path: &str, key: &'static str, setting: &T) {
        let entry = Entry { key, plain: setting.write(), masked: setting.masked() };
        match self.blocks.iter_mut().find(|block| block.path == path) {
            Some(block) => block.entries.push(entry),
            None => self.blocks.push(Block { path: path.to_owned(), entries: vec![entry] }),
        }
    }

    /// The keys outside of routes whose values differ, secrets included.
    pub(super) fn changed(&self, other: &Self) -> Vec<String> {
        self.settings()
            .zip(other.settings())
            .filter(|(one, two)| one != two)
            .map(|((path, entry), _)| joined(path, entry.key))
            .collect()
    }

    /// The paths of all keys outside of routes.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<String> {
        self.settings().map(|(path, entry)| joined(path, entry.key)).collect()
    }

    /// The keys of the first route.
    #[cfg(test)]
    pub(super) fn route_keys(&self) -> Vec<&'static str> {
        let route = self.blocks.iter().find(|block| block.is_route());
        route.iter().flat_map(|route| route.entries.iter().map(|entry| entry.key)).collect()
    }

    /// Whatever of `other` the filter lets through, the rest as it is here.
    pub(super) fn with(&self, other: &Self, take: impl Fn(&str) -> bool) -> Self {
        let settings = self.blocks.iter().filter(|block| !block.is_route()).map(|block| {
            let entries = block.entries.iter().map(|entry| {
                let taken = take(&joined(&block.path, entry.key));
                let theirs = other
                    .settings()
                    .find(|(path, their)| *path == block.path && their.key == entry.key);
                theirs.filter(|_| taken).map_or(entry, |(_, entry)| entry).clone()
            });
            Block { path: block.path.clone(), entries: entries.collect() }
        });
        let routes = other.blocks.iter().filter(|block| block.is_route()).cloned();
        Self { blocks: settings.chain(routes).collect() }
    }

    fn settings(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.blocks
            .iter()
            .filter(|block| !block.is_route())
            .flat_map(|block| block.entries.iter().map(|entry| (block.path.as_str(), entry)))
    }
}

impl Block {
    fn is_route(&self) -> bool {
        self.path.starts_with("routes[")
    }
}

pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for block in &self.blocks {
            match block.path.as_str() {
                "" => {}
                _ if block.is_route() => writeln!(f, "\n[[routes]]")?,
                path => writeln!(f, "\n[{path}]")?,
            }
            for Entry { key, plain, masked } in &block.entries {
                writeln!(f, "{key} = {}", masked.as_ref().unwrap_or(plain))?;
            }
        }
        Ok(())
    }
}

/// As it is shown: the plain values may be secrets.
impl fmt::Debug for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A TOML string.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(character)));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::tree;

    proptest! {
        #[test]
        fn any_text_survives_its_quotes(text in any::<String>()) {
            let table = tree::parse(&"t".into(), &format!("k = {}", quote(&text))).unwrap();
            prop_assert_eq!(table["k"].value.text(), Some(text.as_str()));
        }
    }
}
