//! Everything that is wrong with a configuration, at once.
//!
//! Each mistake says where it stands (file, line and column, flag or variable), which key it is
//! about, what is wrong and, where that is known, what to write instead. Whoever starts a gateway
//! at night should not have to find five mistakes in five starts.

use std::fmt;
use std::sync::Arc;

/// Where a value came from. In the order in which mistakes are listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Line and column count from 1; none when the mistake is about the file as a whole.
    File(Arc<str>, Option<(usize, usize)>),
    Flag(&'static str),
    Variable(String),
    /// It was given nowhere.
    Nowhere,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    pub origin: Origin,
    /// The key's path, such as `routes[0].lease`; empty when it is about no key.
    pub key: String,
    pub what: String,
    pub hint: Option<String>,
}

/// At least one mistake, sorted by place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

/// What is wrong with one value, before it is known under which key the value stands.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    /// The place inside the value, if it is not the value itself.
    pub at: Option<Origin>,
    /// The path inside the value: `.rate`, `[2]`.
    pub below: String,
    pub what: String,
    pub hint: Option<String>,
}

impl Mistakes {
    pub(super) fn unless_none(mut mistakes: Vec<Mistake>) -> Result<(), Self> {
        mistakes.sort();
        // What is wrong in [defaults] is found again in every route that inherits it.
        mistakes.dedup();
        if mistakes.is_empty() { Ok(()) } else { Err(Self(mistakes)) }
    }

    pub fn list(&self) -> &[Mistake] {
        &self.0
    }
}

impl Wrong {
    pub fn new(what: impl Into<String>) -> Self {
        Self { at: None, below: String::new(), what: what.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, seen from the value around it.
    pub fn inside(mut self, below: &str, at: &Origin) -> Self {
        self.below.insert_str(0, below);
        self.at.get_or_insert_with(|| at.clone());
        self
    }

    pub fn about(self, key: String, origin: &Origin) -> Mistake {
        Mistake {
            origin: self.at.unwrap_or_else(|| origin.clone()),
            key: key + &self.below,
            what: self.what,
            hint: self.hint,
        }
    }

    pub fn unknown_key<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        let wrong = Self::new("unknown key");
        let known: Vec<_> = known.into_iter().collect();
        match nearest(name, known.iter().copied()) {
            Some(near) => wrong.hint(format!("did you mean {near:?}?")),
            None => wrong.hint(format!("here may stand: {}", known.join(", "))),
        }
    }
}

/// The known name that was probably meant; none when nothing is close.
pub(super) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let far = 1 + name.chars().count() / 4;
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(name, Some((line, column))) => write!(f, "{name}:{line}:{column}: "),
            Self::File(name, None) => write!(f, "{name}: "),
            Self::Flag(flag) => write!(f, "{flag}: "),
            Self::Variable(name) => write!(f, "{name}: "),
            Self::Nowhere => Ok(()),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.fmt(f)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_reads_like_a_compilers() {
        let origin = Origin::File("oncegate.toml".into(), Some((12, 3)));
        let wrong = Wrong::unknown_key("leese", ["ttl", "lease", "wait"]);
        assert_eq!(
            wrong.about("routes[0].leese".into(), &origin).to_string(),
            "oncegate.toml:12:3: routes[0].leese: unknown key; did you mean \"lease\"?"
        );
    }

    #[test]
    fn a_name_like_no_other_is_told_what_there_is() {
        assert_eq!(nearest("colour", ["ttl", "lease", "wait"]), None);
        let hint = Wrong::unknown_key("colour", ["ttl", "lease", "wait"]).hint;
        assert_eq!(hint.as_deref(), Some("here may stand: ttl, lease, wait"));
        assert_eq!(nearest("max_conections", ["max", "max_connections"]), Some("max_connections"));
    }
}
