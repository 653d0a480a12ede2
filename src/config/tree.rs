//! The file as a tree in which every key and value knows where it stands.
//!
//! The TOML reader's own errors come out as mistakes too, all of them: it carries on behind a
//! syntax error as far as it can.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistakes::{Mistake, Origin};

#[derive(Clone, Debug)]
pub struct Value {
    pub origin: Origin,
    pub node: Node,
}

#[derive(Clone, Debug)]
pub enum Node {
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Value>),
    Table(Table),
    /// From a flag or a variable, where everything is text: `5` may be a number, `a,b` a list.
    Loose(String),
    /// What no key takes, by its name in messages.
    Other(&'static str),
}

pub type Table = BTreeMap<String, Member>;

#[derive(Clone, Debug)]
pub struct Member {
    /// Where the key stands.
    pub origin: Origin,
    pub value: Value,
}

impl Value {
    pub fn loose(origin: Origin, text: &str) -> Self {
        Self { origin, node: Node::Loose(text.to_owned()) }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.node {
            Node::Text(_) | Node::Loose(_) => "a string",
            Node::Integer(_) => "an integer",
            Node::Boolean(_) => "a boolean",
            Node::List(_) => "an array",
            Node::Table(_) => "a table",
            Node::Other(kind) => kind,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) | Node::Loose(text) => Some(text),
            _ => None,
        }
    }
}

/// Places in a text, from byte offsets.
struct Places<'t> {
    name: Arc<str>,
    text: &'t str,
    line_starts: Vec<usize>,
}

impl Places<'_> {
    fn at(&self, offset: usize) -> Origin {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts[line - 1];
        let column = self.text.get(start..offset).map_or(1, |before| before.chars().count() + 1);
        Origin::File(self.name.clone(), Some((line, column)))
    }

    fn value(&self, value: &Spanned<DeValue<'_>>) -> Value {
        let node = match value.get_ref() {
            DeValue::String(text) => Node::Text(text.to_string()),
            DeValue::Integer(integer) => {
                match i64::from_str_radix(integer.as_str(), integer.radix()) {
                    Ok(integer) => Node::Integer(integer),
                    Err(_) => Node::Other("an integer beyond 64 bits"),
                }
            }
            DeValue::Boolean(boolean) => Node::Boolean(*boolean),
            DeValue::Array(items) => {
                Node::List(items.iter().map(|item| self.value(item)).collect())
            }
            DeValue::Table(table) => Node::Table(self.table(table)),
            DeValue::Float(_) => Node::Other("a float"),
            DeValue::Datetime(_) => Node::Other("a date"),
        };
        Value { origin: self.at(value.span().start), node }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let member = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let origin = self.at(key.span().start);
            let key: &std::borrow::Cow<'_, str> = key.get_ref();
            (key.to_string(), Member { origin, value: self.value(value) })
        };
        table.iter().map(member).collect()
    }
}

/// `name` is what messages call the file.
pub fn parse(name: &Arc<str>, text: &str) -> Result<Table, Vec<Mistake>> {
    let line_starts =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let places = Places { name: name.clone(), text, line_starts };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(places.table(table.get_ref()));
    }
    let mistake = |error: &toml::de::Error| Mistake {
        origin: error.span().map_or(Origin::File(name.clone(), None), |span| places.at(span.start)),
        key: String::new(),
        what: format!("not TOML: {}", error.message().replace('\n', ", ")),
        hint: None,
    };
    Err(errors.iter().map(mistake).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: usize, column: usize) -> Origin {
        Origin::File("f.toml".into(), Some((line, column)))
    }

    #[test]
    fn keys_and_values_know_their_line_and_column() {
        let table = parse(&"f.toml".into(), "a = 1\n[b]\n'ü' = [2]\n").unwrap();
        assert_eq!(table["a"].origin, place(1, 1));
        assert_eq!(table["a"].value.origin, place(1, 5));
        let Node::Table(b) = &table["b"].value.node else { panic!("a table") };
        assert_eq!((&b["ü"].origin, &b["ü"].value.origin), (&place(3, 1), &place(3, 7)));
    }

    #[test]
    fn every_syntax_error_has_its_line() {
        let mistakes = parse(&"f.toml".into(), "a = \nb = 1\nc = \"open\nd = 2\nb = 3\n");
        let mistakes = mistakes.unwrap_err();
        let lines: Vec<_> = mistakes.iter().map(|mistake| mistake.origin.clone()).collect();
        assert!(mistakes.len() >= 2, "{mistakes:?}");
        assert!(lines.iter().all(|origin| matches!(origin, Origin::File(_, Some(_)))));
    }
}
