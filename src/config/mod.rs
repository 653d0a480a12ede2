//! Flags, variables and the file become one validated value, or a list of all mistakes.
//!
//! Everything is decided here, before anything is bound: whoever holds a [`Config`] asks no more
//! questions of it. Reading is a function of its [`Sources`]; only [`Config::load`] touches the
//! process and the disk.

mod admin;
mod effective;
mod environment;
mod flags;
mod logs;
mod mistakes;
mod reader;
mod reload;
mod route;
mod secret;
mod sections;
mod setting;
mod tiers;
mod tree;
mod units;
mod upstream;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mistakes::Wrong;
use reader::Reader;

pub use admin::Admin;
pub use effective::Effective;
pub use environment::Environment;
pub use flags::Flags;
pub use logs::{AccessLog, LogFormat, LoggedKeys, Logs, Traces};
pub use mistakes::{Mistake, Mistakes, Origin};
pub use reload::Reload;
pub use route::{KeyFrom, Mode, Need, Per, RateLimit, Route, TenantFrom};
pub use secret::{Secret, SecretUrl};
pub use sections::{Connections, Decision, Http2, Janitor, Limits, Reconciler, Tls, UpstreamTls};
pub use tiers::{Durable, Fast, WhenDown};
pub use units::{Rate, parse_duration};
pub use upstream::Upstream;

#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub upstream: Upstream,
    pub shutdown_grace: Duration,
    pub admin: Admin,
    pub durable: Durable,
    pub fast: Fast,
    pub connections: Connections,
    pub tls: Option<Tls>,
    pub limits: Limits,
    pub upstream_tls: UpstreamTls,
    pub reconciler: Reconciler,
    pub janitor: Janitor,
    pub logs: Logs,
    pub traces: Traces,
    pub decision: Decision,
    /// At least one.
    pub routes: Vec<Arc<Route>>,
    effective: Effective,
    remarks: Vec<String>,
}

/// Where a configuration comes from.
pub struct Sources<'a> {
    pub flags: &'a Flags,
    pub environment: &'a Environment,
    /// Reads the configuration file, and the files it names.
    pub read_file: &'a dyn Fn(&Path) -> io::Result<String>,
}

/// What a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Serving,
    /// It does without an upstream, and has none where none is named.
    Migrating,
}

/// The tables of the file that are read by name.
const TABLES: &[&str] = &[
    "admin",
    "durable",
    "fast",
    "connections",
    "tls",
    "limits",
    "upstream_tls",
    "reconciler",
    "janitor",
    "logs",
    "traces",
    "decision",
    "defaults",
    "routes",
];

const HOW_TO_NAME_AN_UPSTREAM: &str =
    "give --upstream URL, ONCEGATE_UPSTREAM or upstream = \"http://127.0.0.1:9000\"";

impl Config {
    /// From the process's environment and the disk.
    pub fn load(flags: &Flags) -> Result<Self, Mistakes> {
        Self::load_for(Purpose::Serving, flags)
    }

    /// The same for whoever wants no more than the tables: nobody has to say what stands behind.
    pub fn load_to_migrate(flags: &Flags) -> Result<Self, Mistakes> {
        Self::load_for(Purpose::Migrating, flags)
    }

    fn load_for(purpose: Purpose, flags: &Flags) -> Result<Self, Mistakes> {
        let environment = Environment::of_process();
        let read_file = &|path: &Path| std::fs::read_to_string(path);
        Self::read_for(purpose, &Sources { flags, environment: &environment, read_file })
    }

    pub fn read(sources: &Sources<'_>) -> Result<Self, Mistakes> {
        Self::read_for(Purpose::Serving, sources)
    }

    fn read_for(purpose: Purpose, sources: &Sources<'_>) -> Result<Self, Mistakes> {
        let file = config_file(sources);
        let name: Option<Arc<str>> = file.as_ref().map(|path| path.display().to_string().into());
        let mut mistakes = Vec::new();
        let root = match (&file, &name) {
            (Some(path), Some(name)) => match (sources.read_file)(path) {
                Ok(text) => tree::parse(name, &text).unwrap_or_else(|errors| {
                    mistakes.extend(errors);
                    tree::Table::new()
                }),
                Err(error) => {
                    let wrong = Wrong::new(format!("it cannot be read: {error}"));
                    mistakes.push(wrong.about(String::new(), &Origin::File(name.clone(), None)));
                    tree::Table::new()
                }
            },
            _ => tree::Table::new(),
        };
        // Without its file a configuration lacks keys that nobody forgot.
        Mistakes::unless_none(mistakes)?;

        let mut reader = Reader {
            file: name,
            root: &root,
            flags: sources.flags,
            environment: sources.environment,
            read_file: sources.read_file,
            mistakes: Vec::new(),
            effective: Effective::default(),
            variables: Vec::new(),
        };
        let config = Self::from_reader(&mut reader, purpose);
        let unknown = sources.environment.unknown(&reader.variables);
        reader.mistakes.extend(unknown.mistakes);
        Mistakes::unless_none(std::mem::take(&mut reader.mistakes))?;
        Ok(Self { remarks: unknown.ignored, ..config })
    }

    /// Complete only if it left no mistakes in the reader.
    fn from_reader(reader: &mut Reader<'_>, purpose: Purpose) -> Self {
        let mut top = reader.top();
        let listen = top.get("listen", SocketAddr::from(([127, 0, 0, 1], 8080)));
        let upstream = match purpose {
            Purpose::Serving => top.required("upstream", Upstream::none(), HOW_TO_NAME_AN_UPSTREAM),
            Purpose::Migrating => top.get("upstream", None).unwrap_or(Upstream::none()),
        };
        let shutdown_grace = top.get("shutdown_grace", Duration::from_secs(30));
        top.done(TABLES);
        let admin = Admin::read(reader, listen);
        let durable = Durable::read(reader);
        let fast = Fast::read(reader);
        let connections = Connections::read(reader);
        let tls = Tls::read(reader);
        let limits = Limits::read(reader);
        let upstream_tls = UpstreamTls::read(reader);
        let reconciler = Reconciler::read(reader);
        let janitor = Janitor::read(reader);
        let logs = Logs::read(reader);
        let traces = Traces::read(reader);
        let decision = Decision::read(reader);
        let routes = route::read_all(reader, &upstream, reconciler.settle_after);
        let effective = std::mem::take(&mut reader.effective);
        Self {
            listen,
            upstream,
            shutdown_grace,
            admin,
            durable,
            fast,
            connections,
            tls,
            limits,
            upstream_tls,
            reconciler,
            janitor,
            logs,
            traces,
            decision,
            routes,
            effective,
            remarks: Vec::new(),
        }
    }

    /// Every key with the value in force, as TOML, secrets masked.
    pub fn effective(&self) -> &Effective {
        &self.effective
    }

    /// What is odd and no mistake.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }
}

fn config_file(sources: &Sources<'_>) -> Option<PathBuf> {
    let variable = || sources.environment.get(environment::CONFIG).map(PathBuf::from);
    sources.flags.config.clone().or_else(variable)
}
