//! Every mistake is found, at once, in its place, and says what to write instead.

use super::*;

fn mistakes_of(file: &str, flags: Flags, variables: &[(&str, &str)]) -> Vec<String> {
    let mistakes = read(file, flags, variables).expect_err("this is no configuration");
    mistakes.list().iter().map(Mistake::to_string).collect()
}

fn mistakes(file: &str) -> Vec<String> {
    mistakes_of(file, Flags::default(), &[])
}

/// The mistakes of a table behind a configuration that is in order, which ends with line 1.
fn in_table(table: &str) -> Vec<String> {
    mistakes(&format!("upstream = 'http://api'\n{table}"))
}

/// The mistakes of keys of a route, from line 4 on.
fn in_route(keys: &str) -> Vec<String> {
    in_table(&format!("[[routes]]\npath = '/pay'\n{keys}"))
}

#[track_caller]
fn assert_mistake(mistakes: &[String], expected: &str) {
    let [mistake] = mistakes else { panic!("one mistake: {mistakes:#?}") };
    assert!(mistake.contains(expected), "{mistake:?} does not contain {expected:?}");
}

#[test]
fn all_mistakes_are_listed_at_once_by_their_place() {
    let found = mistakes(
        "listn = 'x'\nlisten = 80\n[admin]\nlisten = 'somewhere'\n\
         [[routes]]\nleese = '30s'\nttl = 'soon'\nmethods = ['POST', 'post', 5]\n",
    );
    let expected = [
        "oncegate.toml: upstream: missing; give --upstream URL",
        "oncegate.toml:5:1: routes[0].path: missing; such as",
        "oncegate.toml:1:1: listn: unknown key; did you mean \"listen\"?",
        "oncegate.toml:2:10: listen: expected an IP address and a port, such as",
        "oncegate.toml:4:10: admin.listen: \"somewhere\" is not an IP address",
        "oncegate.toml:6:1: routes[0].leese: unknown key; did you mean \"lease\"?",
        "oncegate.toml:7:7: routes[0].ttl: \"soon\" is not a duration such as",
        "oncegate.toml:8:20: routes[0].methods[1]: \"post\" is not a method in capitals",
        "oncegate.toml:8:28: routes[0].methods[2]: expected a method in capitals",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for start in expected {
        assert!(found.iter().any(|mistake| mistake.starts_with(start)), "{start}: {found:#?}");
    }
}

#[test]
fn a_mistake_in_a_flag_or_a_variable_names_it() {
    let flags = Flags { listen: Some("80".into()), ..Flags::default() };
    let variables = [
        ("ONCEGATE_FAST_LOCK_TTL", "2h"),
        ("ONCEGATE_DURABEL", "x"),
        ("ONCEGATE_JANITOR_BATCH", "x"),
    ];
    let found = mistakes_of("upstream = 'http://api'", flags, &variables);
    let [flag, unknown, lock_ttl, batch] = &found[..] else { panic!("{found:#?}") };
    assert!(flag.starts_with("--listen: listen: \"80\" is not"), "{flag}");
    assert_eq!(unknown, "ONCEGATE_DURABEL: unknown variable; did you mean ONCEGATE_DURABLE?");
    let expected = "ONCEGATE_FAST_LOCK_TTL: fast.lock_ttl: \"2h\" is not between \"1s\" and \"1m\"";
    assert_eq!(lock_ttl, expected);
    assert!(batch.starts_with("ONCEGATE_JANITOR_BATCH: janitor.batch: \"x\" is not"), "{batch}");
}

#[test]
fn a_variable_of_somebody_else_is_a_remark_and_no_mistake() {
    let variables = [("ONCEGATE_BUILD", "7"), ("ONCEGATE_VERSION", "1"), ("ONCEGATE_FOO", "x")];
    let config = read("upstream = 'http://api'", Flags::default(), &variables).unwrap();
    let [build, foo, version] = config.remarks() else { panic!("{:?}", config.remarks()) };
    assert_eq!(build, "ONCEGATE_BUILD: unknown variable; it is ignored");
    assert!(foo.starts_with("ONCEGATE_FOO") && version.starts_with("ONCEGATE_VERSION"));
}

#[test]
fn two_variables_for_one_key_are_one_too_many() {
    let variables = [("ONCEGATE_FAST", "redis://a"), ("ONCEGATE_FAST_URL", "redis://b")];
    let found = mistakes_of("upstream = 'http://api'", Flags::default(), &variables);
    assert_mistake(&found, "ONCEGATE_FAST_URL: fast.url: given twice, also as ONCEGATE_FAST");
}

#[test]
fn a_file_that_is_not_there_or_not_toml_is_the_only_mistake() {
    let environment = Environment::default();
    let flags = Flags { config: Some("elsewhere.toml".into()), ..Flags::default() };
    let sources = Sources { flags: &flags, environment: &environment, read_file: &disk("") };
    let shown = Config::read(&sources).unwrap_err().to_string();
    assert!(shown.starts_with("elsewhere.toml: it cannot be read: "), "{shown}");

    let found = mistakes("listen = '127.0.0.1:80'\nupstream = \n[admin]\n");
    assert_mistake(&found, "oncegate.toml:2:");
    assert_mistake(&found, "not TOML: ");
    let found = mistakes("upstream = 'http://a'\nupstream = 'http://b'\n");
    assert_mistake(&found, "oncegate.toml:2:1: not TOML: duplicate key");

    for deep in
        ["[".repeat(100_000), "a = ".to_owned() + &"{a = ".repeat(50_000), "a.".repeat(100_000)]
    {
        assert!(!mistakes(&deep).is_empty());
    }
}

#[test]
fn a_table_of_the_wrong_kind_says_how_to_write_it() {
    assert_mistake(&in_table("admin = 3"), ":2:9: admin: expected a table, found an integer");
    assert_mistake(&in_table("[routes]\npath = '/'"), "line [[routes]]");
    assert_mistake(&in_table("routes = [1]"), "routes[0]: expected a table, found an integer");
}

#[test]
fn the_admin_listener_beyond_this_machine_asks_for_a_token() {
    let open = "[admin]\nlisten = '0.0.0.0:8081'";
    assert_mistake(&in_table(open), "admin.token: missing, though 0.0.0.0:8081");
    let flags = || Flags { admin_token: Some("secret".into()), ..Flags::default() };
    assert!(read(&format!("upstream = 'http://a'\n{open}"), flags(), &[]).is_ok());
    for (keys, expected) in [
        ("token = 'a'\ntoken_file = 'token'", "admin.token_file: token is given too"),
        ("token_file = 'nowhere'", ":3:14: admin.token_file: nowhere cannot be read"),
        ("token_file = 'blank'", "admin.token_file: blank holds no token"),
        ("token = 'two words'", "admin.token: this is not a token of visible ASCII"),
        ("token = 'a'\nread_token = 'a'", "admin.read_token: it is the same as token"),
        ("read_token = 'a'", "admin.read_token: there is no token beside it"),
        ("listen = '127.0.0.1:8080'", "admin.listen: 127.0.0.1:8080 is where clients connect"),
    ] {
        assert_mistake(&in_table(&format!("[admin]\n{keys}")), expected);
    }
}

#[test]
fn urls_are_told_by_their_scheme_and_never_repeated() {
    for (table, expected) in [
        (
            "[durable]\nurl = 'oracle://me:hunter2@db'",
            "durable.url: it starts with \"oracle\"; use",
        ),
        ("[durable]\nurl = 'redis://me:hunter2@db'", "use mysql://, postgres:// or sqlite://"),
        ("[durable]\nurl = 'mysql://me:hunter2/x@db'", "durable.url: this is not a URL"),
        ("[durable]\nurl = 'hunter2'", "durable.url: this is not a URL"),
        ("[durable]\nurl = 'sqlite://:memory:'", "keeps nothing"),
        ("[durable]\nurl = 'sqlite::memory:'", "name a file, such as sqlite://oncegate.db"),
        ("[durable]\nurl = 'sqlite://a.db?mode=memory'", "durable.url: a database in memory"),
        ("[fast]\nurl = 'sqlite://:memory:'", "fast.url: it starts with \"sqlite\"; use redis://"),
        ("[fast]\nurl = 'http://me:hunter2@c'", "fast.url: it starts with \"http\"; use redis://"),
        ("[reconciler]\nprobe_url = 'ftp://me:hunter2@a'", "use http:// or https://"),
    ] {
        let found = in_table(table);
        assert_mistake(&found, expected);
        assert!(!found[0].contains("hunter2"), "{found:?}");
    }
}

#[test]
fn numbers_and_durations_have_bounds() {
    for (table, key) in [
        ("[fast]\nlock_ttl = '500ms'", "fast.lock_ttl"),
        ("[fast]\nlock_ttl = '61s'", "fast.lock_ttl"),
        ("[durable]\nmax_connections = 0", "durable.max_connections"),
        ("[durable]\nmax_connections = -1", "durable.max_connections"),
        ("[connections]\nmax = 0", "connections.max"),
        ("[limits]\nmax_header_bytes = '1KiB'", "limits.max_header_bytes"),
        ("[limits]\nheader_timeout = '0s'", "limits.header_timeout"),
        ("[janitor]\nbatch = 0", "janitor.batch"),
        ("[reconciler]\ninterval = '0s'", "reconciler.interval"),
    ] {
        assert_mistake(&in_table(table), key);
    }
    assert_mistake(&in_table("shutdown_grace = 30"), "found an integer; write \"30s\" for seconds");
}

#[test]
fn tls_takes_both_files_or_none() {
    for (keys, expected) in [
        ("[tls]\ncert = 'cert.pem'", "tls.cert: tls.key is missing beside it"),
        ("[tls]\nkey = 'key.pem'", "tls.key: tls.cert is missing beside it"),
        ("[tls]\ncert = 'key.pem'\nkey = 'key.pem'", "tls.cert: key.pem is no PEM file"),
        ("[tls]\ncert = 'cert.pem'\nkey = 'gone'", "tls.key: gone cannot be read"),
        ("[upstream_tls]\nca = 'gone'", "upstream_tls.ca: gone cannot be read"),
    ] {
        assert_mistake(&in_table(keys), expected);
    }
}

#[test]
fn a_fingerprint_that_makes_all_requests_equal_is_refused() {
    for (keys, expected) in [
        ("{ body = 'json', fields = [] }", ":4:41: routes[0].fingerprint.fields: it would make"),
        ("{ body = 'json', ignore = [''] }", ".ignore: \"\" is the whole body"),
        ("{ body = 'json', fields = ['/a'], ignore = ['/b'] }", ".ignore: fields is given too"),
        ("{ fields = ['/a'] }", ".fields: a raw body has no fields; body = \"json\""),
        ("{ body = 'json', fields = ['a'] }", ".fields[0]: \"a\" is not a JSON pointer"),
        ("{ boddy = 'json' }", ".boddy: unknown key; did you mean \"body\"?"),
        ("{ headers = ['a b'] }", ".headers[0]: \"a b\" is not the name of a header"),
        ("'raw'", "routes[0].fingerprint: expected a table such as"),
    ] {
        assert_mistake(&in_route(&format!("fingerprint = {keys}")), expected);
    }
}

#[test]
fn the_keys_of_a_route_are_checked() {
    for (key, expected) in [
        ("key_max_length = 0", "key_max_length: 0 is not between 1 and 255"),
        ("key_max_length = 256", "key_max_length: 256 is not between 1 and 255"),
        ("key_pattern = '['", "key_pattern is not a regular expression"),
        ("key_from = 'cookie:a'", "key_from: \"cookie:a\" is not \"header:Idempotency-Key\""),
        ("key_from = 'body:'", "key_from: \"body:\" is not"),
        ("tenant_from = 'header:'", "tenant_from: \"header:\" is not"),
        ("mismatch_status = 500", "mismatch_status: 500 is not 400 to 499"),
        ("mismatch_status = 200", "mismatch_status: 200 is not a status of an error"),
        ("wait = '11s'\nwait_max = '10s'", ":4:8: routes[0].wait: it is longer than wait_max"),
        ("wait = '25h'", "wait: \"25h\" is not between"),
        ("ttl = '0s'", "ttl: \"0s\" is not between"),
        ("lease = '0s'", "lease: \"0s\" is not between"),
        ("max_attempts = 0", "max_attempts: 0 is not between 1"),
        (
            "unknown_statuses = [504, 503]\ntransient_statuses = [503]",
            ":4:20: routes[0].unknown_statuses: 503 is in transient_statuses too",
        ),
        ("transient_statuses = [408, 408]", "transient_statuses[1]: 408 is there twice"),
        ("transient_statuses = [200]", "transient_statuses[0]: 200 is not a status of an error"),
        ("methods = []", "methods: a route has at least one method"),
        ("scope = ''", "scope: a scope needs at least one character"),
        ("mode = 'on'", "mode: \"on\" is not \"enforce\", \"shadow\" or \"off\""),
        ("rate_limit = { per = 'tenant', rate = '0/s' }", "rate_limit.rate: \"0/s\" is not"),
        ("rate_limit = { per = 'tenant' }", "rate_limit: rate is missing"),
        ("rate_limit = { per = 'tenant', rate = '1/s', burst = 0 }", "burst: it would let nothing"),
        ("rate_limit = '5/s'", "rate_limit: \"5/s\" is not \"none\" or a table"),
        (
            "upstream = 'http://a/v1'",
            "ends with its host and port; requests keep their path; write",
        ),
        ("upstream = []", "upstream: an upstream has at least one address"),
        ("upstream = ['http://a', 'http://a']", "upstream[1]: \"http://a\" is there twice"),
        ("ttl = 99999999999999999999", "ttl: expected a duration"),
        ("ttl = 1.5", "found a float"),
    ] {
        assert_mistake(&in_route(key), expected);
    }
}

#[test]
fn two_keys_that_contradict_each_other_are_told_where_the_nearer_one_stands() {
    for (defaults, route, expected) in [
        ("unknown_statuses = [503]", "transient_statuses = [503]", ":6:22: routes[0].transient_"),
        ("transient_statuses = [502]", "unknown_statuses = [502]", ":6:20: routes[0].unknown_st"),
        ("wait = '20s'", "wait_max = '5s'", ":6:12: routes[0].wait_max: it is shorter than wait"),
        ("wait_max = '5s'", "wait = '20s'", ":6:8: routes[0].wait: it is longer than wait_max"),
    ] {
        let table = format!("[defaults]\n{defaults}\n[[routes]]\npath = '/a'\n{route}");
        assert_mistake(&in_table(&table), expected);
    }
    // Said once, and not of a route that has a word of its own.
    let found = in_table(
        "[defaults]\nunknown_statuses = [503]\ntransient_statuses = [503]\n\
         [[routes]]\npath = '/a'\n[[routes]]\npath = '/b'\nunknown_statuses = []",
    );
    assert_mistake(&found, ":3:20: defaults.unknown_statuses: 503 is in transient_statuses too");
}

#[test]
fn a_path_is_in_the_routers_syntax() {
    for (path, expected) in [
        ("pay", "a path starts with a slash"),
        ("/pay?x=1", "a path has no query"),
        ("/{*rest}/more", "a parameter with a star ends the path"),
        ("/{}", "a parameter is a name in braces"),
        ("/{a", "a parameter is a name in braces"),
        ("/{a}{b}", "there is at most one parameter between two slashes"),
    ] {
        let found = in_table(&format!("[[routes]]\npath = '{path}'"));
        assert_mistake(&found, &format!("oncegate.toml:3:8: routes[0].path: {expected}"));
    }
}

#[test]
fn the_same_path_and_method_twice_is_named_whatever_its_parameters_are_called() {
    for (first, second) in
        [("/v1/{*rest}", "/v1/{*all}"), ("/v1/{id}/x", "/v1/{name}/x"), ("/v1", "/v1")]
    {
        let found = in_table(&format!(
            "[[routes]]\npath = '{first}'\n[[routes]]\npath = '{second}'\nmethods = ['POST']"
        ));
        assert_mistake(&found, ":5:8: routes[1].path: routes[0] has the same path for POST; make");
    }
}

#[test]
fn what_is_wrong_in_the_defaults_is_said_once() {
    let found = in_table(
        "[defaults]\nttl = 'soon'\n[[routes]]\npath = '/a'\n[[routes]]\npath = '/b'\nttl = '1h'",
    );
    assert_mistake(&found, "oncegate.toml:3:7: defaults.ttl: \"soon\" is not a duration");
    assert_mistake(&in_table("[defaults]\nteetee = 1"), "defaults.teetee: unknown key");
    let found = in_table("[defaults]\npath = '/a'");
    assert_mistake(&found, "defaults.path: every route has a path of its own");
}
