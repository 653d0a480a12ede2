//! What a configuration promises, from the outside: texts in, a value or mistakes out.

mod mistakes;
mod round_trip;

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use http::{Method, StatusCode};

use super::*;
use crate::idempotency::key::KeyRules;
use crate::idempotency::{Key, Policy, ReplayTo, WhenFailed, WhenUnknown};

/// The disk of these tests.
fn disk(file: &str) -> impl Fn(&Path) -> io::Result<String> {
    move |path| match path.to_str() {
        Some("oncegate.toml") => Ok(file.to_owned()),
        Some("token") => Ok("from-a-file\n".to_owned()),
        Some("cert.pem" | "ca.pem") => Ok("-----BEGIN CERTIFICATE-----".to_owned()),
        Some("key.pem") => Ok("-----BEGIN PRIVATE KEY-----".to_owned()),
        Some("blank") => Ok(" \n".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn read(file: &str, flags: Flags, variables: &[(&str, &str)]) -> Result<Config, Mistakes> {
    let flags = Flags { config: Some("oncegate.toml".into()), ..flags };
    let environment = variables.iter().copied().collect();
    Config::read(&Sources { flags: &flags, environment: &environment, read_file: &disk(file) })
}

/// From a file alone.
pub(super) fn config(file: &str) -> Config {
    read(file, Flags::default(), &[]).unwrap()
}

fn route(keys: &str) -> Arc<Route> {
    let file = format!("upstream = 'http://top'\n[[routes]]\npath = '/pay'\n{keys}");
    config(&file).routes[0].clone()
}

#[test]
fn an_upstream_is_all_that_a_configuration_needs() {
    let flags = Flags { upstream: Some("http://api:9000".into()), ..Flags::default() };
    let environment = Environment::default();
    let read_file = &disk("never read");
    let config = Config::read(&Sources { flags: &flags, environment: &environment, read_file });
    let config = config.unwrap();
    assert_eq!(config.listen, SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)));
    assert_eq!(config.admin.listen, SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)));
    assert_eq!(config.durable.url.expose(), "sqlite://oncegate.db");
    assert_eq!(config.fast.url.expose(), "memory:");
    assert_eq!(config.shutdown_grace, Duration::from_secs(30));
    assert_eq!(config.upstream.to_string(), "http://api:9000");
}

#[test]
fn without_routes_one_stands_for_every_path() {
    let config = config("upstream = 'http://api'");
    let [route] = &config.routes[..] else { panic!("one route") };
    assert_eq!(route.path, "/{*rest}");
    assert_eq!(route.methods, [Method::POST, Method::PATCH]);
    assert_eq!(route.key, Need::Optional);
    assert_eq!(route.mode, Mode::Enforce);
    assert_eq!(route.key_from, KeyFrom::default());
    assert_eq!(route.upstream, config.upstream);
    let policy = Policy { replay_to: ReplayTo::SameCredential, ..Policy::default() };
    assert_eq!(*route.policy, policy);
}

#[test]
fn a_flag_wins_over_a_variable_and_a_variable_over_the_file() {
    let file = "upstream = 'http://file'\nlisten = '127.0.0.1:1'\nshutdown_grace = '1s'\n\
                [fast]\nurl = 'redis://file'";
    let flags = Flags { upstream: Some("http://flag".into()), ..Flags::default() };
    let variables = [
        ("ONCEGATE_UPSTREAM", "http://variable"),
        ("ONCEGATE_LISTEN", "127.0.0.1:2"),
        ("ONCEGATE_FAST", "redis://variable"),
        ("ONCEGATE_LIMITS_MAX_IN_FLIGHT", "7"),
        ("ONCEGATE_ADMIN_SHOW_BODIES", "true"),
        ("ONCEGATE_SHUTDOWN_GRACE", ""),
    ];
    let config = read(file, flags, &variables).unwrap();
    assert_eq!(config.upstream.to_string(), "http://flag");
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.fast.url.expose(), "redis://variable");
    assert_eq!(config.limits.max_in_flight, 7);
    assert!(config.admin.show_bodies);
    assert_eq!(config.shutdown_grace, Duration::from_secs(1));
}

#[test]
fn the_file_may_be_named_by_a_variable() {
    let environment = Environment::from_iter([("ONCEGATE_CONFIG", "oncegate.toml")]);
    let (flags, read_file) = (Flags::default(), &disk("upstream = 'http://file'"));
    let config = Config::read(&Sources { flags: &flags, environment: &environment, read_file });
    assert_eq!(config.unwrap().upstream.to_string(), "http://file");
}

#[test]
fn a_route_overrides_the_defaults_key_by_key() {
    let config = read(
        "upstream = 'http://top'\n[defaults]\nttl = '1h'\nlease = '5s'\nwait = '1s'\n\
         rate_limit = { per = 'tenant', rate = '10/m' }\nupstream = 'http://other'\n\
         [[routes]]\npath = '/a'\nttl = '2h'\nrate_limit = 'none'\nupstream = ''\n\
         [[routes]]\npath = '/b'",
        Flags::default(),
        &[("ONCEGATE_DEFAULTS_WAIT", "3s"), ("ONCEGATE_DEFAULTS_METHODS", "PUT, DELETE")],
    )
    .unwrap();
    let [a, b] = &config.routes[..] else { panic!("two routes") };
    assert_eq!(a.policy.ttl, Duration::from_secs(7200));
    assert_eq!(a.policy.lease, Duration::from_secs(5));
    assert_eq!(a.policy.wait, Duration::from_secs(3));
    assert_eq!(a.rate_limit, None);
    assert_eq!(a.upstream, config.upstream);
    assert_eq!(b.policy.ttl, Duration::from_secs(3600));
    assert_eq!(b.methods, [Method::PUT, Method::DELETE]);
    assert_eq!(b.rate_limit.as_ref().map(|limit| limit.burst.get()), Some(10));
    assert_eq!(b.upstream.to_string(), "http://other");
}

/// The statuses of a route that say that nothing was done, and that nobody knows.
fn statuses(route: &Route) -> (Vec<u16>, Vec<u16>) {
    let codes = |list: &[StatusCode]| list.iter().map(|status| status.as_u16()).collect();
    (codes(&route.transient_statuses), codes(&route.unknown_statuses))
}

#[test]
fn a_list_that_was_written_takes_its_members_out_of_the_default_of_the_other() {
    let usual = vec![401, 403, 408, 425, 429, 503];
    assert_eq!(statuses(&route("")), (usual.clone(), vec![502, 504]));
    let of = |keys: &str| statuses(&route(keys));
    assert_eq!(of("unknown_statuses = [503]"), (vec![401, 403, 408, 425, 429], vec![503]));
    assert_eq!(of("transient_statuses = [502]"), (vec![502], vec![504]));
    assert_eq!(of("transient_statuses = [502, 504]"), (vec![502, 504], vec![]));
    assert_eq!(of("unknown_statuses = []"), (usual, vec![]));
    assert_eq!(of("unknown_statuses = [500]\ntransient_statuses = [502]"), (vec![502], vec![500]));
}

#[test]
fn what_the_defaults_say_was_written_too_and_a_route_says_it_anew() {
    let config = config(
        "upstream = 'http://top'\n\
         [defaults]\nunknown_statuses = [503]\nwait = '15s'\n\
         [[routes]]\npath = '/a'\n\
         [[routes]]\npath = '/b'\nunknown_statuses = [500]\nwait = '1s'\n\
         [[routes]]\npath = '/c'\nunknown_statuses = [500]\ntransient_statuses = [503]\n\
         wait_max = '20s'",
    );
    let [a, b, c] = &config.routes[..] else { panic!("three routes") };
    assert_eq!(statuses(a), (vec![401, 403, 408, 425, 429], vec![503]));
    assert_eq!(statuses(b), (vec![401, 403, 408, 425, 429, 503], vec![500]));
    assert_eq!(statuses(c), (vec![503], vec![500]));
    let waits = |route: &Route| (route.policy.wait.as_secs(), route.wait_max.as_secs());
    assert_eq!((waits(a), waits(b), waits(c)), ((15, 15), (1, 10), (15, 20)));
}

#[test]
fn a_wait_that_was_written_raises_a_wait_max_that_was_not() {
    let waits = |keys: &str| (route(keys).policy.wait.as_secs(), route(keys).wait_max.as_secs());
    assert_eq!(waits(""), (0, 10));
    assert_eq!(waits("wait = '5s'"), (5, 10));
    assert_eq!(waits("wait = '15s'"), (15, 15));
    assert_eq!(waits("wait = '15s'\nwait_max = '1m'"), (15, 60));
}

#[test]
fn the_tables_can_be_migrated_without_an_upstream() {
    let flags = Flags { durable: Some("mysql://db/x".into()), ..Flags::default() };
    let environment = Environment::default();
    let read_file = &disk("");
    let sources = Sources { flags: &flags, environment: &environment, read_file };
    let config = Config::read_for(Purpose::Migrating, &sources).unwrap();
    assert_eq!(config.durable.url.expose(), "mysql://db/x");
    let serving = Config::read(&sources).unwrap_err().to_string();
    assert!(serving.starts_with("upstream: missing"), "{serving}");
}

#[test]
fn every_key_of_a_route_arrives() {
    let route = route(
        "methods = ['POST', 'PURGE']\nscope = 'payment'\nmode = 'shadow'\nkey = 'required'\n\
         key_from = 'body:/order/id'\nkey_max_length = 5\nkey_pattern = '[a-z]+'\n\
         tenant_from = 'header:X-Tenant-Id'\nmismatch_status = 422\nwhen_failed = 'replay'\n\
         when_unknown = 'retry'\nmax_attempts = 3\nretry_backoff = '2s'\nwait_max = '1m'\n\
         timeout = '5s'\ntransient_statuses = [503]\nunknown_statuses = []\n\
         snapshot_max_bytes = 10\nsnapshot_headers_drop = ['Set-Cookie', 'X-Trace']\n\
         request_max_bytes = '2MiB'\nrate_limit = { per = 'client_ip', rate = '5/s', burst = 9 }\n\
         fingerprint = { body = 'json', query = false, ignore = ['/at'], headers = ['X-A'] }\n\
         upstream = ['http://a:1', 'http://b:2']",
    );
    assert_eq!(route.methods.len(), 2);
    assert_eq!(route.scope.as_str(), "payment");
    assert_eq!((route.mode, route.key), (Mode::Shadow, Need::Required));
    assert!(matches!(&route.key_from, KeyFrom::Body(pointer) if pointer.as_str() == "/order/id"));
    assert!(Key::new("abcde", &route.key_rules).is_ok());
    assert!(Key::new("abcdef", &route.key_rules).is_err());
    assert!(Key::new("ABC", &route.key_rules).is_err());
    assert_eq!(route.tenant_from, TenantFrom::Header("x-tenant-id".parse().unwrap()));
    assert_eq!(route.mismatch_status.as_u16(), 422);
    assert_eq!(route.policy.when_failed, WhenFailed::Replay);
    assert_eq!(route.policy.when_unknown, WhenUnknown::Retry);
    assert_eq!(route.policy.max_attempts, 3);
    assert_eq!(route.policy.retry_backoff, Duration::from_secs(2));
    assert_eq!((route.wait_max, route.timeout), (Duration::from_secs(60), Duration::from_secs(5)));
    assert_eq!(route.transient_statuses.len() + route.unknown_statuses.len(), 1);
    assert_eq!((route.snapshot_max_bytes, route.request_max_bytes), (10, 2 << 20));
    assert_eq!(route.snapshot_headers_drop.len(), 2);
    let limit = route.rate_limit.as_ref().unwrap();
    assert_eq!((limit.per, limit.rate.count.get(), limit.burst.get()), (Per::ClientIp, 5, 9));
    assert_ne!(route.fingerprint, Default::default());
    assert_eq!(route.upstream.addresses().len(), 2);
}

#[test]
fn a_stored_answer_goes_to_any_credential_only_when_a_trusted_layer_names_the_tenant() {
    for (tenant_from, replay_to) in [
        ("header:X-Tenant-Id", ReplayTo::AnyCredential),
        ("credential", ReplayTo::SameCredential),
        ("none", ReplayTo::SameCredential),
    ] {
        let route = route(&format!("tenant_from = '{tenant_from}'"));
        assert_eq!(route.policy.replay_to, replay_to, "{tenant_from}");
    }
}

#[test]
fn without_a_pattern_a_key_is_visible_ascii() {
    let rules: KeyRules = route("").key_rules.clone();
    assert!(Key::new("order-1042", &rules).is_ok());
    assert!(Key::new("två", &rules).is_err());
}

#[test]
fn a_more_specific_path_and_another_method_are_other_routes() {
    let paths = ["/v1/{*rest}", "/v1", "/v1/{id}", "/v1/{id}/refunds", "/v1/fixed"];
    let mut file = "upstream = 'http://api'\n".to_owned();
    for path in paths {
        for method in ["POST", "PATCH"] {
            file.push_str(&format!("[[routes]]\npath = '{path}'\nmethods = ['{method}']\n"));
        }
    }
    assert_eq!(config(&file).routes.len(), 10);
}

#[test]
fn a_token_may_stand_in_a_file_of_its_own() {
    let config = config(
        "upstream = 'http://api'\n[admin]\nlisten = '0.0.0.0:8081'\ntoken_file = 'token'\n\
         read_token = 'reader'\n[tls]\ncert = 'cert.pem'\nkey = 'key.pem'\n\
         [upstream_tls]\nca = 'ca.pem'",
    );
    assert_eq!(config.admin.token.as_ref().map(Secret::expose), Some("from-a-file"));
    assert_eq!(config.admin.read_token.as_ref().map(Secret::expose), Some("reader"));
    let tls = Tls { cert: PathBuf::from("cert.pem"), key: PathBuf::from("key.pem") };
    assert_eq!(config.tls, Some(tls));
}
