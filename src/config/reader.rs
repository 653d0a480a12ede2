//! Asks the sources for one key after the other: flag, then variable, then file, then default.
//!
//! ## Why there is no list of keys
//! The code that asks for a key is its declaration. From the asking follow its variable, its line
//! in the effective configuration and the set of known names; none of them can be forgotten.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::effective::{Effective, joined};
use super::environment::{self, Environment};
use super::flags::Flags;
use super::mistakes::{Mistake, Origin, Wrong};
use super::setting::Setting;
use super::tree::{Member, Node, Table, Value};

pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

pub struct Reader<'a> {
    pub file: Option<Arc<str>>,
    pub root: &'a Table,
    pub flags: &'a Flags,
    pub environment: &'a Environment,
    pub read_file: ReadFile<'a>,
    pub mistakes: Vec<Mistake>,
    pub effective: Effective,
    pub variables: Vec<String>,
}

/// A table whose keys are asked for.
pub struct Section<'r, 'a> {
    reader: &'r mut Reader<'a>,
    /// Where a key is looked for, in this order.
    layers: Vec<Layer<'a>>,
    asked: Vec<&'static str>,
    shown: Shown,
}

#[derive(Clone)]
struct Layer<'a> {
    path: String,
    table: Option<&'a Table>,
    /// Where the table stands: the place of what is missing in it.
    origin: Option<&'a Origin>,
    variables: bool,
}

/// The value in force.
struct Found<'a> {
    /// Of its key.
    path: String,
    value: Cow<'a, Value>,
    /// Which of the layers it stands in.
    layer: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Yes,
    /// It is shown where it is inherited.
    No,
}

impl<'a> Reader<'a> {
    /// The keys outside of any table.
    pub fn top(&mut self) -> Section<'_, 'a> {
        let layer =
            Layer { path: String::new(), table: Some(self.root), origin: None, variables: true };
        Section { reader: self, layers: vec![layer], asked: Vec::new(), shown: Shown::Yes }
    }

    pub fn section(&mut self, name: &'static str) -> Section<'_, 'a> {
        let layer = self.named(name);
        Section { reader: self, layers: vec![layer], asked: Vec::new(), shown: Shown::Yes }
    }

    /// What routes inherit, on its own: it may be wrong without any route that inherits it.
    pub fn defaults(&mut self) -> Section<'_, 'a> {
        let layer = self.named("defaults");
        Section { reader: self, layers: vec![layer], asked: Vec::new(), shown: Shown::No }
    }

    /// The routes of the file, each with its index.
    pub fn routes(&mut self) -> Vec<(usize, (&'a Origin, &'a Table))> {
        let root: &'a Table = self.root;
        let Some(Member { value, .. }) = root.get("routes") else {
            return Vec::new();
        };
        let hint = "each route starts with a line [[routes]]";
        let Node::List(items) = &value.node else {
            let wrong = Wrong::new(format!("expected an array of tables, found {}", value.kind()));
            self.mistakes.push(wrong.hint(hint).about("routes".into(), &value.origin));
            return Vec::new();
        };
        let table = |(index, item): (usize, &'a Value)| match &item.node {
            Node::Table(table) => Some((index, (&item.origin, table))),
            _ => {
                let wrong = Wrong::new(format!("expected a table, found {}", item.kind()));
                let key = format!("routes[{index}]");
                self.mistakes.push(wrong.hint(hint).about(key, &item.origin));
                None
            }
        };
        items.iter().enumerate().filter_map(table).collect()
    }

    pub fn route(&mut self, index: usize, own: Option<(&'a Origin, &'a Table)>) -> Section<'_, 'a> {
        let path = format!("routes[{index}]");
        let (origin, table) = own.unzip();
        let own = Layer { path, table, origin, variables: false };
        let layers = vec![own, self.named("defaults")];
        Section { reader: self, layers, asked: Vec::new(), shown: Shown::Yes }
    }

    fn named(&mut self, name: &'static str) -> Layer<'a> {
        let root: &'a Table = self.root;
        let own = root.get(name).and_then(|Member { origin, value }| match &value.node {
            Node::Table(table) => Some((origin, table)),
            _ => {
                let wrong = Wrong::new(format!("expected a table, found {}", value.kind()))
                    .hint(format!("its keys stand below a line [{name}]"));
                self.mistakes.push(wrong.about(name.into(), &value.origin));
                None
            }
        });
        let (origin, table) = own.unzip();
        Layer { path: name.to_owned(), table, origin, variables: true }
    }
}

impl<'a> Section<'_, 'a> {
    pub fn get<T: Setting>(&mut self, key: &'static str, default: T) -> T {
        self.get_if(key, default, |_| Ok(()))
    }

    /// A setting that must be within bounds, both included.
    pub fn within<T: Setting + PartialOrd>(
        &mut self,
        key: &'static str,
        default: T,
        (low, high): (T, T),
    ) -> T {
        self.get_if(key, default, |setting| {
            if (&low..=&high).contains(&setting) {
                return Ok(());
            }
            let (low, high) = (low.write(), high.write());
            Err(Wrong::new(format!("{} is not between {low} and {high}", setting.write())))
        })
    }

    /// What is wrong is noted and the default stands in, so that what follows is looked at too.
    pub fn get_if<T: Setting>(
        &mut self,
        key: &'static str,
        default: T,
        check: impl FnOnce(&T) -> Result<(), Wrong>,
    ) -> T {
        self.asked.push(key);
        let setting = match self.find(key) {
            None => default,
            Some(Found { path, value, .. }) => {
                let read = T::read(&value).and_then(|setting| match check(&setting) {
                    Ok(()) => Ok(setting),
                    Err(wrong) => Err(vec![wrong]),
                });
                read.unwrap_or_else(|wrongs| {
                    let mistakes =
                        wrongs.into_iter().map(|wrong| wrong.about(path.clone(), &value.origin));
                    self.reader.mistakes.extend(mistakes);
                    default
                })
            }
        };
        if self.shown == Shown::Yes {
            self.reader.effective.add(&self.layers[0].path, key, &setting);
        }
        setting
    }

    /// What was written for a key that is still to be asked for, if it can be read.
    pub fn given<T: Setting>(&mut self, key: &str) -> Option<T> {
        self.find(key).and_then(|found| T::read(&found.value).ok())
    }

    /// Which of two keys stands nearer: in the table itself rather than in what it inherits. The
    /// first where both stand alike.
    pub fn nearer<'k>(&mut self, one: &'k str, other: &'k str) -> &'k str {
        let mut layer = |key: &str| self.find(key).map_or(usize::MAX, |found| found.layer);
        if layer(other) < layer(one) { other } else { one }
    }

    /// A setting without a default; `stand_in` is for those that read on.
    pub fn required<T: Setting>(&mut self, key: &'static str, stand_in: T, hint: &str) -> T {
        if self.find(key).is_none_or(|found| found.value.text() == Some("")) {
            self.wrong(key, Wrong::new("missing").hint(hint));
            self.asked.push(key);
            return stand_in;
        }
        self.get(key, stand_in)
    }

    /// A key that is known elsewhere and means nothing here.
    pub fn refuse(&mut self, key: &'static str, why: &str) {
        self.asked.push(key);
        if self.find(key).is_some() {
            self.wrong(key, Wrong::new(why));
        }
    }

    /// A mistake about a key that was read before, where its value stands.
    pub fn wrong(&mut self, key: &str, wrong: Wrong) {
        let (path, origin) = match self.find(key) {
            Some(Found { path, value, .. }) => (path, value.origin.clone()),
            None => (joined(&self.layers[0].path, key), self.place()),
        };
        self.reader.mistakes.push(wrong.about(path, &origin));
    }

    /// A file that a key names. What cannot be read is a mistake about the key.
    pub fn file(&mut self, key: &str, path: &Path) -> Option<String> {
        match (self.reader.read_file)(path) {
            Ok(text) => Some(text),
            Err(error) => {
                let what = format!("{} cannot be read: {error}", path.display());
                self.wrong(key, Wrong::new(what));
                None
            }
        }
    }

    /// Where a mistake stands that is about something absent.
    fn place(&self) -> Origin {
        let file = || self.reader.file.clone().map(|name| Origin::File(name, None));
        self.layers[0].origin.cloned().or_else(file).unwrap_or(Origin::Nowhere)
    }

    /// Names what stands in the first table and was not asked for.
    pub fn done(self, also_known: &[&'static str]) {
        let Layer { path, table, .. } = &self.layers[0];
        for (key, Member { origin, .. }) in table.iter().flat_map(|table| table.iter()) {
            let known = || self.asked.iter().chain(also_known).copied();
            if !known().any(|known| known == key) {
                let unknown = Wrong::unknown_key(key, known());
                self.reader.mistakes.push(unknown.about(joined(path, key), origin));
            }
        }
    }

    fn find(&mut self, key: &str) -> Option<Found<'a>> {
        for (index, layer) in self.layers.clone().into_iter().enumerate() {
            let path = joined(&layer.path, key);
            let overriding = if layer.variables { self.outside(&layer.path, key) } else { None };
            let in_file = || layer.table?.get(key).map(|member| Cow::Borrowed(&member.value));
            if let Some(value) = overriding.map(Cow::Owned).or_else(in_file) {
                return Some(Found { path, value, layer: index });
            }
        }
        None
    }

    /// From a flag or a variable.
    fn outside(&mut self, section: &str, key: &str) -> Option<Value> {
        let names = environment::names(section, key);
        let environment: &'a Environment = self.reader.environment;
        let set: Vec<_> =
            names.iter().filter_map(|name| Some((name, environment.get(name)?))).collect();
        if let [(first, _), (second, _)] = set[..] {
            let wrong = Wrong::new(format!("given twice, also as {first}"));
            let origin = Origin::Variable(second.clone());
            self.reader.mistakes.push(wrong.about(joined(section, key), &origin));
        }
        let variable =
            set.first().map(|(name, text)| Value::loose(Origin::Variable((*name).clone()), text));
        if !names.iter().any(|name| self.reader.variables.contains(name)) {
            self.reader.variables.extend(names);
        }
        let flags: &'a Flags = self.reader.flags;
        let flag = flags.get(&joined(section, key));
        flag.map(|(flag, text)| Value::loose(Origin::Flag(flag), text)).or(variable)
    }
}
