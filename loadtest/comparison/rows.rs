//! What is measured, in the order of the table, and what is aimed at.

use crate::load::Keys;

/// Whose row it is: one running program each, so that nobody works off another row's aftermath.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Who {
    /// As a proxy.
    Nginx,
    HaProxy,
    /// Answering by itself.
    NginxConstant,
    /// The gateway where no tier is asked: untouched requests, and answers it remembers.
    Gateway,
    /// The gateway on SQLite and memory.
    Embedded,
    /// The gateway on MySQL and Redis.
    Servers,
    /// A second one on the same servers, new in each round: it remembers nothing by itself.
    SecondOnServers,
}

impl Who {
    pub fn needs_servers(self) -> bool {
        matches!(self, Who::Servers | Who::SecondOnServers)
    }

    pub fn is_gateway(self) -> bool {
        !matches!(self, Who::Nginx | Who::HaProxy | Who::NginxConstant)
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Target {
    /// The processor time per request, at most this many times nginx's.
    TimesNginx(f64),
    /// The processor time per request, at most.
    Micros(f64),
    /// Requests per second, at least.
    PerSecond(f64),
}

#[derive(Clone, PartialEq)]
pub struct Row {
    pub group: &'static str,
    pub name: &'static str,
    pub who: Who,
    pub method: &'static str,
    pub keys: Keys,
    pub connections: usize,
    /// The group whose first row, nginx, it is compared with.
    pub against: &'static str,
    pub targets: &'static [Target],
}

impl Row {
    pub fn path(&self) -> &'static str {
        if self.keys == Keys::None { "/plain" } else { "/v1/payments" }
    }

    /// What `Idempotency-Status` has to say. Rows that are compared have wrk look at the same, so
    /// that it takes the same time from them.
    pub fn expected(&self) -> Option<&'static str> {
        match self.keys {
            Keys::None => None,
            Keys::One if self.who == Who::NginxConstant => Some("none"),
            Keys::One | Keys::Known => Some("replayed"),
            Keys::New => Some("executed"),
        }
    }

    /// Whether its requests reach the upstream, each once; else none does.
    pub fn executes(&self) -> bool {
        matches!(self.keys, Keys::None | Keys::New)
    }
}

const GET: &str = "GET, proxied";
const POST: &str = "POST without a key, proxied";
const HOT: &str = "POST answered from memory";
const FIRST: &str = "first calls, every key new";
const REPLAYS: &str = "replays of many keys";

/// All of them, or those that have the word in them with those that they need.
pub fn rows(only: Option<&str>) -> Vec<Row> {
    let all = all();
    let Some(word) = only.map(str::to_lowercase) else {
        return all;
    };
    let has_it = |row: &&Row| format!("{}: {}", row.group, row.name).to_lowercase().contains(&word);
    let wanted: Vec<Row> = all.iter().filter(has_it).cloned().collect();
    let needed = |row: &Row| {
        let compared = |other: &Row| other.against == row.group && row.who.is_nginx();
        let replayed = |other: &Row| other.keys == Keys::Known && row.makes_known_keys();
        wanted.iter().any(|other| compared(other) || replayed(other))
    };
    all.into_iter().filter(|row| wanted.contains(row) || needed(row)).collect()
}

impl Row {
    /// Whether the rows of known keys replay what it has executed.
    pub fn makes_known_keys(&self) -> bool {
        self.who == Who::Servers && self.connections == MANY
    }
}

impl Who {
    pub fn is_nginx(self) -> bool {
        matches!(self, Who::Nginx | Who::NginxConstant)
    }
}

const SOME: usize = 64;
const MANY: usize = 256;

fn all() -> Vec<Row> {
    let plain = |group, method, name, who, targets| Row {
        group,
        name,
        who,
        method,
        keys: Keys::None,
        connections: SOME,
        against: group,
        targets,
    };
    let keyed = |group, name, who, keys, connections, against, targets| Row {
        group,
        name,
        who,
        method: "POST",
        keys,
        connections,
        against,
        targets,
    };
    let untouched: &[Target] = &[Target::TimesNginx(1.25)];
    let replay: &[Target] = &[Target::TimesNginx(1.4)];
    let first: &[Target] = &[Target::PerSecond(5000.0), Target::Micros(100.0)];
    let embedded = "oncegate, SQLite + memory";
    let servers = "oncegate, MySQL + Redis";
    vec![
        plain(GET, "GET", "nginx", Who::Nginx, &[]),
        plain(GET, "GET", "HAProxy", Who::HaProxy, &[]),
        plain(GET, "GET", "oncegate, untouched", Who::Gateway, untouched),
        plain(POST, "POST", "nginx", Who::Nginx, &[]),
        plain(POST, "POST", "HAProxy", Who::HaProxy, &[]),
        plain(POST, "POST", "oncegate, untouched", Who::Gateway, untouched),
        keyed(HOT, "nginx, a constant", Who::NginxConstant, Keys::One, SOME, HOT, &[]),
        keyed(HOT, "oncegate, replay of one key", Who::Gateway, Keys::One, SOME, HOT, replay),
        keyed(FIRST, embedded, Who::Embedded, Keys::New, SOME, POST, &[]),
        keyed(FIRST, embedded, Who::Embedded, Keys::New, MANY, POST, &[]),
        keyed(FIRST, servers, Who::Servers, Keys::New, SOME, POST, &[]),
        keyed(FIRST, servers, Who::Servers, Keys::New, MANY, POST, first),
        keyed(REPLAYS, "oncegate, from Redis", Who::SecondOnServers, Keys::Known, SOME, HOT, &[]),
    ]
}
