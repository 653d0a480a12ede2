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
    let mistake = |error: &toml::de::Error| {
        let start = error.span().map(|span| span.start);
        let rest = start.and_then(|start| text.get(start..)).and_then(|rest| rest.lines().next());
        Mistake {
            origin: start.map_or(Origin::File(name.clone(), None), |start| places.at(start)),
            key: String::new(),
            what: format!("not TOML: {}", error.message().replace('\n', ", ")),
            hint: hint(error.message(), rest.unwrap_or_default()).map(str::to_owned),
        }
    };
    Err(errors.iter().map(mistake).collect())
}

/// What to write instead, for slips that are often made. `rest`: of the line where it was noticed.
fn hint(message: &str, rest: &str) -> Option<&'static str> {
    const NO_VALUE: &str = "missing value";
    // The reader sees an empty text without its quotes there.
    let empty = message.starts_with("string values") && rest.trim().is_empty();
    let message = if empty { NO_VALUE } else { message };
    let slips = [
        (
            &["duplicate key"][..],
            "each key stands once in its table, and each table once; only [[routes]] comes again",
        ),
        (
            &["string values must be quoted", "missing opening quote", "invalid value"],
            "texts, durations, sizes and URLs stand in quotes: ttl = \"24h\"",
        ),
        (&[NO_VALUE], "write a value behind the =, or \"\" for \"not set\""),
        (
            &["key with no value", "unexpected key or value", "extra `=`", "unexpected content"],
            "a line is key = value, or the name of a table in brackets such as [fast]",
        ),
        (
            &["unclosed table", "unclosed array table"],
            "the brackets around a table's name are closed as they are opened: [fast], [[routes]]",
        ),
        (
            &["unclosed array", "unclosed inline table", "missing comma", "missing assignment"],
            "a list is [\"a\", \"b\"], a table on one line { body = \"json\", query = true }",
        ),
        (
            &["invalid basic string", "invalid literal string", "missing escaped value"],
            "a text ends on its line, with the quote it begins with; a backslash is doubled in \
             \"…\", and itself in '…'",
        ),
    ];
    let made = |slips: &[&str]| slips.iter().any(|slip| message.starts_with(slip));
    slips.iter().find(|(slips, _)| made(slips)).map(|(_, hint)| *hint)
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
    fn slips_that_are_often_made_are_told_how_it_is_written() {
        for (text, told) in [
            ("ttl = 24h\n", "stand in quotes"),
            ("ttl = soon\n", "stand in quotes"),
            ("url = mysql://db/x\n", "stand in quotes"),
            ("url = \n", "a value behind the ="),
            ("url\n", "a line is key = value"),
            ("a = 1 b = 2\n", "a line is key = value"),
            ("a = 1\na = 2\n", "each key stands once"),
            ("[a]\n[a]\n", "each key stands once"),
            ("[fast\n", "closed as they are opened"),
            ("[[routes]\n", "closed as they are opened"),
            ("a = [1\n", "a list is"),
            ("a = { b = 1 c = 2 }\n", "a list is"),
            ("a = \"b\n", "a text ends on its line"),
            ("a = 'b\n", "a text ends on its line"),
            ("a = \"C:\\dir\"\n", "a backslash is doubled"),
        ] {
            let mistakes = parse(&"f.toml".into(), text).unwrap_err();
            let hinted =
                |mistake: &Mistake| mistake.hint.as_ref().is_some_and(|hint| hint.contains(told));
            assert!(mistakes.iter().any(hinted), "{text:?}: {mistakes:#?}");
        }
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
