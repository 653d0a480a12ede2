//! The effective configuration reads back as the same one, and the reference knows every key.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::config::tree::{Node, Table};

/// Values that each key takes, several for each.
const SETTINGS: &[(&str, &str, &[&str])] = &[
    ("", "listen", &["'127.0.0.1:0'", "'[::1]:8080'", "'localhost:80'"]),
    ("", "shutdown_grace", &["'0s'", "'1m30s'"]),
    ("admin", "token", &["'secret'", "''"]),
    ("admin", "show_bodies", &["true", "false"]),
    ("durable", "url", &["'mysql://u:pw@db/x?password=y'", "'postgres://db/x'", "'sqlite:a.db'"]),
    ("durable", "when_down", &["'bypass'"]),
    ("fast", "url", &["'redis://:pw@c:1/0'", "'none'", "'redis-cluster://a:1?node=b:2'"]),
    ("fast", "lock_ttl", &["'1s'", "'1500ms'", "'60s'"]),
    ("fast", "replay_max_bytes", &["0", "'1KB'", "'1GiB'", "4095"]),
    ("connections", "http2", &["'never'", "'prior-knowledge'"]),
    ("tls", "cert", &["'cert.pem'"]),
    ("limits", "max_header_bytes", &["'8KiB'", "100000"]),
    ("upstream_tls", "ca", &["'ca.pem'"]),
    ("reconciler", "probe_url", &["'http://u:pw@probe/outcome'", "''"]),
    ("janitor", "batch", &["1", "0x10"]),
    ("decision", "ttl", &["'100ms'", "'3650d'"]),
];

const ROUTE_SETTINGS: &[(&str, &[&str])] = &[
    ("methods", &["['POST']", "['PUT', 'PURGE', 'DELETE']"]),
    ("scope", &["'payment'", "\"a \\\"b\\\" \\\\ ü\""]),
    ("mode", &["'shadow'", "'off'"]),
    ("key", &["'required'"]),
    ("key_from", &["'header:X-Key'", "'body:/a~1b/0'", "'digest'"]),
    ("key_max_length", &["1", "36"]),
    ("key_pattern", &["'[a-z]{3,}\\d+'", "''"]),
    ("tenant_from", &["'header:X-Tenant'", "'none'"]),
    (
        "fingerprint",
        &[
            "{ query = false }",
            "{ body = 'json' }",
            "{ body = 'json', fields = ['/a', '/b~0'], headers = ['B', 'A'] }",
            "{ body = 'json', ignore = ['/at'] }",
        ],
    ),
    ("mismatch_status", &["422"]),
    ("ttl", &["'7d'", "'36h'", "'100ms'"]),
    ("wait", &["'10s'"]),
    ("transient_statuses", &["[]", "[503, 429]"]),
    ("when_failed", &["'replay'", "'reject'"]),
    ("when_unknown", &["'retry'"]),
    ("snapshot_headers_drop", &["[]", "['X-A', 'x-b']"]),
    ("rate_limit", &["'none'", "{ per = 'client_ip', rate = '5/h' }"]),
    ("upstream", &["'https://other'", "['http://a:1', 'http://b:2']", "''"]),
];

/// Some of the keys, each with one of its values.
fn some_of(values: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    proptest::option::of(proptest::sample::select(values))
}

fn file() -> impl Strategy<Value = String> {
    let settings: Vec<_> = SETTINGS.iter().map(|(_, _, values)| some_of(values)).collect();
    let route = || ROUTE_SETTINGS.iter().map(|(_, values)| some_of(values)).collect::<Vec<_>>();
    (settings, proptest::collection::vec(route(), 0..3), route()).prop_map(
        |(settings, routes, defaults)| {
            let mut file = "upstream = ['http://a', 'https://b:8443']\n".to_owned();
            let mut current = "";
            for ((table, key, _), value) in SETTINGS.iter().zip(settings) {
                let Some(value) = value else { continue };
                if *table != current {
                    current = table;
                    file.push_str(&format!("[{table}]\n"));
                }
                file.push_str(&format!("{key} = {value}\n"));
                if *key == "cert" {
                    file.push_str("key = 'key.pem'\n");
                }
            }
            let keys = |values: Vec<Option<&str>>| -> String {
                let line = |((key, _), value): (&(&str, _), Option<&str>)| {
                    value.map(|value| format!("{key} = {value}\n"))
                };
                ROUTE_SETTINGS.iter().zip(values).filter_map(line).collect()
            };
            file.push_str(&format!("[defaults]\n{}", keys(defaults)));
            for (index, route) in routes.into_iter().enumerate() {
                file.push_str(&format!("[[routes]]\npath = '/{index}/{{*a}}'\n{}", keys(route)));
            }
            file
        },
    )
}

proptest! {
    #[test]
    fn the_effective_configuration_reads_back_as_the_same(file in file()) {
        let first = config(&file);
        let shown = first.effective().to_string();
        prop_assert!(!shown.contains("pw") && !shown.contains("secret"), "{}", shown);
        let second = config(&shown);
        prop_assert_eq!(second.effective().to_string(), shown);
        // Secrets are masked in this, as they are in what was read back.
        prop_assert_eq!(format!("{second:?}"), format!("{first:?}"));
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = read(&text, Flags::default(), &[]);
    }

    #[test]
    fn no_soup_of_its_own_words_makes_it_panic(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "upstream", "listen", "admin", "routes", "defaults", "fingerprint", "rate_limit", "path",
            "[", "]", "[[", "]]", "{", "}", "=", ",", ".", "\n", "\n", "\"", "'", "'/{a}'", "'1s'",
            "1", "-1", "1.5", "true", "[]", "''", "'http://a'", "#", "1979-05-27", "ttl", "methods",
        ]), 0..60)
    ) {
        let _ = read(&words.concat(), Flags::default(), &[]);
        let _ = read(&words.join(" "), Flags::default(), &[]);
    }

    #[test]
    fn no_value_of_any_key_makes_it_panic(
        key in 0..ROUTE_SETTINGS.len(), value in "\\PC{0,30}", number in any::<i64>()
    ) {
        let (key, _) = ROUTE_SETTINGS[key];
        let quoted = crate::config::effective::quote(&value);
        for value in [quoted.clone(), number.to_string(), format!("[{quoted}]"), value] {
            let file = format!("upstream = 'http://a'\n[[routes]]\npath = {quoted}\n{key} = {value}");
            let _ = read(&file, Flags::default(), &[("ONCEGATE_DEFAULTS_TTL", &value)]);
        }
    }
}

fn reference() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/oncegate.toml");
    std::fs::read_to_string(path).expect("the reference lies in deploy")
}

#[test]
fn the_reference_holds_the_defaults() {
    let (reference, bare) = (config(&reference()), config("upstream = 'http://127.0.0.1:9000'"));
    assert_eq!(reference.effective().to_string(), bare.effective().to_string());
    assert_eq!(format!("{reference:?}"), format!("{bare:?}"));
}

#[test]
fn the_reference_lists_every_key_and_no_other() {
    let table = crate::config::tree::parse(&"reference".into(), &reference()).unwrap();
    let mut listed = BTreeSet::new();
    let keys = |prefix: &str, table: &Table| -> Vec<String> {
        table.keys().map(|key| format!("{prefix}{key}")).collect()
    };
    for (name, member) in &table {
        match &member.value.node {
            Node::Table(table) => listed.extend(keys(&format!("{name}."), table)),
            Node::List(routes) => routes.iter().for_each(|route| match &route.node {
                Node::Table(table) => listed.extend(keys("defaults.", table)),
                _ => panic!("a route is a table"),
            }),
            _ => drop(listed.insert(name.clone())),
        }
    }
    let bare = config("upstream = 'http://127.0.0.1:9000'");
    let route_keys = bare.effective().route_keys();
    let known = route_keys.iter().map(|key| format!("defaults.{key}"));
    assert_eq!(listed, bare.effective().keys().into_iter().chain(known).collect());
}

/// Every key has a line that explains it, or stands in a table that does.
#[test]
fn the_reference_explains_itself() {
    let text = reference();
    let bare = text.lines().filter(|line| line.contains(" = ") && !line.contains('#')).count();
    assert!(bare <= 12, "{bare} keys without a word of explanation");
}
