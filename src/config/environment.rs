//! The variables that configure: `ONCEGATE_` and the path of a key, in capitals.
//!
//! The only place that asks the process for its environment. A variable that nothing reads is a
//! mistake where its name is nearly a known one, and otherwise worth a word: the environment is not
//! ours alone. A cluster that runs a service of our name puts its addresses into every pod under
//! names that start like ours; not even that is said.

use std::collections::BTreeMap;

use super::mistakes::{Mistake, Origin, Wrong, nearest};

const PREFIX: &str = "ONCEGATE_";
pub(super) const CONFIG: &str = "ONCEGATE_CONFIG";
/// Where `oncegate records` finds the admin listener. The gateway has no use for it, but is often
/// started from the same shell.
const ADMIN: &str = "ONCEGATE_ADMIN";
const ADMIN_LISTEN: &str = "ONCEGATE_ADMIN_LISTEN";
const ADMIN_TOKEN: &str = "ONCEGATE_ADMIN_TOKEN";

/// Variables whose names start with `ONCEGATE_`; an empty one counts as not set.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    pub fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Where the admin listener is, for those who ask it: said to them, or to the gateway.
    pub fn admin(&self) -> Option<&str> {
        self.get(ADMIN).or(self.get(ADMIN_LISTEN))
    }

    /// What the admin listener asks for, and is asked with.
    pub fn admin_token(&self) -> Option<&str> {
        self.get(ADMIN_TOKEN)
    }

    /// What is set and means nothing.
    pub(super) fn unknown(&self, known: &[String]) -> Unknown {
        let known = || known.iter().map(String::as_str).chain([CONFIG, ADMIN]);
        // The beginning that all have in common does not make two names alike.
        let own = |name: &'_ str| name.strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let mut unknown = Unknown::default();
        for (name, value) in &self.0 {
            if known().any(|known| known == name) || is_elsewheres(name, value) {
                continue;
            }
            let wrong = Wrong::new("unknown variable");
            let names: Vec<_> = known().map(own).collect();
            let near = nearest(&own(name), names.iter().map(String::as_str));
            let origin = Origin::Variable(name.clone());
            match near.map(|near| wrong.clone().hint(format!("did you mean {PREFIX}{near}?"))) {
                Some(wrong) => unknown.mistakes.push(wrong.about(String::new(), &origin)),
                None => {
                    let wrong = wrong.hint("it is ignored");
                    unknown.ignored.push(wrong.about(String::new(), &origin).to_string());
                }
            }
        }
        unknown
    }
}

/// Variables that nothing reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unknown {
    /// Nearly a known name.
    pub mistakes: Vec<Mistake>,
    /// What is to be said of the others.
    pub ignored: Vec<String>,
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let ours = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty());
        Self(ours.collect())
    }
}

/// `section.key` as a variable; the URLs of the tiers have a short name as well.
pub(super) fn names(section: &str, key: &str) -> Vec<String> {
    let section = section.to_ascii_uppercase();
    let long = match section.as_str() {
        "" => format!("{PREFIX}{}", key.to_ascii_uppercase()),
        _ => format!("{PREFIX}{section}_{}", key.to_ascii_uppercase()),
    };
    match key {
        "url" => vec![format!("{PREFIX}{section}"), long],
        _ => vec![long],
    }
}

/// Kubernetes' service links (`ONCEGATE_SERVICE_HOST`, `ONCEGATE_PORT_8080_TCP_ADDR`, …), also of
/// services such as `oncegate-admin`, and the variables of our own test command.
fn is_elsewheres(name: &str, value: &str) -> bool {
    let transports = ["tcp", "udp", "sctp"];
    let numbered = name.split_once("_PORT_").is_some_and(|(_, behind)| {
        behind.starts_with(|c: char| c.is_ascii_digit())
            && transports.iter().any(|transport| behind.contains(&transport.to_ascii_uppercase()))
    });
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || name.ends_with("_PORT")
            && transports.iter().any(|transport| value.starts_with(transport))
        || numbered
        || name.starts_with("ONCEGATE_TEST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_of_our_name_in_the_cluster_is_no_mistake() {
        let environment = Environment::from_iter([
            ("ONCEGATE_SERVICE_HOST", "10.0.0.1"),
            ("ONCEGATE_SERVICE_PORT", "8080"),
            ("ONCEGATE_SERVICE_PORT_HTTP", "8080"),
            ("ONCEGATE_PORT", "tcp://10.0.0.1:8080"),
            ("ONCEGATE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("ONCEGATE_PORT_8080_TCP_PROTO", "tcp"),
            ("ONCEGATE_PORT_8080_TCP_PORT", "8080"),
            ("ONCEGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("ONCEGATE_ADMIN_SERVICE_HOST", "10.0.0.2"),
            ("ONCEGATE_ADMIN_PORT", "tcp://10.0.0.2:8081"),
            ("ONCEGATE_ADMIN_PORT_8081_TCP_ADDR", "10.0.0.2"),
        ]);
        assert_eq!(environment.unknown(&[]), Unknown::default());
    }

    #[test]
    fn a_variable_is_a_mistake_only_where_it_is_nearly_a_known_one() {
        let environment = Environment::from_iter([
            ("ONCEGATE_UPSTREM", "http://a"),
            ("ONCEGATE_CONFG", "a.toml"),
            ("ONCEGATE_PORT", "8080"),
            ("ONCEGATE_BUILD", "7"),
            ("ONCEGATE_EMPTY", ""),
            ("PATH", "/bin"),
        ]);
        let known = [names("", "upstream"), names("fast", "url")].concat();
        let Unknown { mistakes, ignored } = environment.unknown(&known);
        let shown: Vec<_> = mistakes.iter().map(Mistake::to_string).collect();
        assert_eq!(
            shown,
            [
                "ONCEGATE_CONFG: unknown variable; did you mean ONCEGATE_CONFIG?",
                "ONCEGATE_UPSTREM: unknown variable; did you mean ONCEGATE_UPSTREAM?"
            ]
        );
        assert_eq!(
            ignored,
            [
                "ONCEGATE_BUILD: unknown variable; it is ignored",
                "ONCEGATE_PORT: unknown variable; it is ignored"
            ]
        );
    }

    #[test]
    fn what_the_command_line_reads_is_no_mistake_of_the_gateways() {
        let environment = Environment::from_iter([(ADMIN, "http://gate:8081"), (CONFIG, "a")]);
        assert_eq!(environment.unknown(&[]), Unknown::default());
        assert_eq!(environment.admin(), Some("http://gate:8081"));
        assert_eq!(names("admin", "token"), [ADMIN_TOKEN]);
        let gateways = Environment::from_iter([(ADMIN_LISTEN, "127.0.0.1:9")]);
        assert_eq!(gateways.admin(), Some("127.0.0.1:9"));
        assert_eq!(names("admin", "listen"), [ADMIN_LISTEN]);
    }

    #[test]
    fn a_variable_is_named_by_the_path_of_its_key() {
        assert_eq!(names("", "shutdown_grace"), ["ONCEGATE_SHUTDOWN_GRACE"]);
        assert_eq!(names("admin", "show_bodies"), ["ONCEGATE_ADMIN_SHOW_BODIES"]);
        assert_eq!(names("fast", "url"), ["ONCEGATE_FAST", "ONCEGATE_FAST_URL"]);
    }
}
