//! The paths of routes: their syntax, and which of them are the same path.
//!
//! The router's own library reads each path here, so that what it would refuse is refused with a
//! line number and before anything is bound. Two paths are never held against each other that way:
//! it refuses `/v1/{id}` beside `/v1/{*rest}`, where for us the more specific one wins.

use std::collections::HashMap;

use http::Method;
use matchit::{InsertError, Router};

use super::Route;
use crate::config::effective::quote;
use crate::config::mistakes::Wrong;
use crate::config::setting::{Reading, Setting, unexpected};
use crate::config::tree::Value;

pub struct PathPattern(pub String);

impl Setting for PathPattern {
    const EXPECTED: &'static str = "a path such as \"/v1/payments/{*rest}\"";

    fn read(value: &Value) -> Reading<Self> {
        let text = value.text().ok_or_else(|| unexpected::<Self>(value))?;
        let wrong = |what: &str, hint: &str| Err(vec![Wrong::new(what).hint(hint)]);
        if !text.starts_with('/') {
            return wrong("a path starts with a slash", Self::EXPECTED);
        }
        if text.contains(['?', '#']) || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return wrong("a path has no query, no fragment and no blanks", Self::EXPECTED);
        }
        match Router::new().insert(text, ()) {
            Ok(()) => Ok(Self(text.to_owned())),
            Err(InsertError::InvalidCatchAll) => {
                wrong("a parameter with a star ends the path", "such as \"/v1/{*rest}\"")
            }
            Err(InsertError::InvalidParamSegment) => {
                wrong("there is at most one parameter between two slashes", "such as \"/v1/{id}\"")
            }
            Err(_) => wrong(
                "a parameter is a name in braces",
                "such as \"/v1/{id}\"; a brace itself is written {{ or }}",
            ),
        }
    }

    fn write(&self) -> String {
        quote(&self.0)
    }
}

/// The paths that are taken, with their methods, and by which route.
#[derive(Default)]
pub struct Taken(HashMap<(Method, String), usize>);

impl Taken {
    /// What is wrong with one more route.
    pub fn take(&mut self, index: usize, route: &Route) -> Vec<Wrong> {
        // An empty path stands in for a wrong one.
        let methods = route.methods.iter().filter(|_| !route.path.is_empty());
        let taken = methods.filter_map(|method| {
            let key = (method.clone(), without_names(&route.path));
            match *self.0.entry(key).or_insert(index) {
                first if first == index => None,
                first => {
                    let what = format!("routes[{first}] has the same path for {method}");
                    let hint = "make one route of the two, or give one of them other methods";
                    Some(Wrong::new(what).hint(hint))
                }
            }
        });
        taken.collect()
    }
}

/// `/v1/{id}` and `/v1/{name}` are the same path. `{{` is a brace and no name.
fn without_names(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut characters = path.chars().peekable();
    let mut in_name = false;
    while let Some(character) = characters.next() {
        match character {
            '{' | '}' if characters.peek() == Some(&character) && !in_name => {
                characters.next();
                plain.extend([character, character]);
            }
            '{' => {
                in_name = true;
                plain.push('{');
                if characters.peek() == Some(&'*') {
                    plain.push('*');
                }
            }
            '}' => {
                in_name = false;
                plain.push('}');
            }
            _ if in_name => {}
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parameters_do_not_tell_paths_apart() {
        assert_eq!(without_names("/v1/{id}/x"), without_names("/v1/{name}/x"));
        assert_eq!(without_names("/v1/{*a}"), without_names("/v1/{*b}"));
        assert_ne!(without_names("/v1/{a}"), without_names("/v1/{*a}"));
        assert_ne!(without_names("/{{a}}"), without_names("/{{b}}"));
        assert_eq!(without_names("/a{{{b}}}"), without_names("/a{{{c}}}"));
    }
}
