//! Which route a request belongs to: the most specific path that lists its method.
//!
//! Routes are tried from the most to the least specific, and the first that matches wins. A route
//! whose fixed beginning does not fit costs one comparison, so a long list is still cheap.
//!
//! ## Why not one tree of paths
//! The library behind a path's syntax refuses `/v1/{id}` beside `/v1/{*rest}` in one tree. Here
//! both stand, and the first wins where both match.
//!
//! ## Why other spellings of a path are matched as well
//! Upstreams decode `%70` before they route, and most take `/v1//pay`, `/v1/./pay` and
//! `/v1/x/../pay` for `/v1/pay`: each would be a way around the gateway. So a path is matched as it
//! would be read, and where no route is about that, as it was written. What is forwarded is the
//! path as it was sent. Parameters of a segment (`/pay;a=1`) and an encoded slash (`%2F`) are left
//! as they are: few upstreams agree on them, and a route can name them.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use http::Method;
use matchit::Router;

/// Routes and what belongs to each, in the order in which they are tried.
pub struct Table<R> {
    entries: Vec<Entry<R>>,
}

struct Entry<R> {
    methods: Vec<Method>,
    /// What every path of this route starts with.
    beginning: String,
    paths: Router<()>,
    route: Arc<R>,
}

/// How much a segment of a path leaves open; the less, the more specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Fixed,
    /// A parameter with text around it; the more text, the more specific.
    Partial(Reverse<usize>),
    Parameter,
    /// Where the path ends and a longer one goes on.
    End,
    Rest,
}

impl<R> Table<R> {
    /// Paths were checked when the configuration was read: one that cannot be used matches nothing.
    pub fn new<'a>(routes: impl IntoIterator<Item = (&'a str, &'a [Method], Arc<R>)>) -> Self {
        let mut routes: Vec<_> = routes.into_iter().collect();
        routes.sort_by_cached_key(|(path, _, _)| specificity(path));
        let entries = routes.into_iter().map(|(path, methods, route)| Entry {
            methods: methods.to_vec(),
            beginning: beginning(path).to_owned(),
            paths: paths(path),
            route,
        });
        Self { entries: entries.collect() }
    }

    pub fn find(&self, method: &Method, path: &str) -> Option<&Arc<R>> {
        if !may_be_read_otherwise(path) {
            return self.matching(method, path);
        }
        let decoded = decoded(path);
        let resolved = resolved(&decoded);
        self.matching(method, &resolved).or_else(|| self.matching(method, &decoded))
    }

    fn matching(&self, method: &Method, path: &str) -> Option<&Arc<R>> {
        let fits = |entry: &&Entry<R>| {
            path.starts_with(&entry.beginning)
                && entry.methods.contains(method)
                && entry.paths.at(path).is_ok()
        };
        self.entries.iter().find(fits).map(|entry| &entry.route)
    }
}

/// `{*rest}` matches no rest, too, with and without its slash.
fn paths(path: &str) -> Router<()> {
    let mut router = Router::new();
    // Each is a path of its own, so none can be in another's way.
    let _ = router.insert(path, ());
    if let Some((before, _)) = path.rsplit_once("/{*") {
        let _ = router.insert(format!("{before}/"), ());
        if !before.is_empty() {
            let _ = router.insert(before, ());
        }
    }
    router
}

/// The text before the first parameter, without a slash that `{*rest}` may do without.
fn beginning(path: &str) -> &str {
    let fixed = path.split('{').next().unwrap_or_default();
    match path[fixed.len()..].starts_with("{*") {
        true => fixed.trim_end_matches('/'),
        false => fixed,
    }
}

fn specificity(path: &str) -> Vec<Segment> {
    let segment = |segment: &str| {
        // A doubled brace is a brace.
        let bare = segment.replace("{{", "").replace("}}", "");
        match bare.split_once('{') {
            None => Segment::Fixed,
            Some((_, name)) if name.starts_with('*') => Segment::Rest,
            Some((before, rest)) => {
                let after = rest.split_once('}').map_or("", |(_, after)| after);
                match before.len() + after.len() {
                    0 => Segment::Parameter,
                    text => Segment::Partial(Reverse(text)),
                }
            }
        }
    };
    path.split('/').skip(1).map(segment).chain([Segment::End]).collect()
}

/// Nearly no path is; the others are to pay nothing.
fn may_be_read_otherwise(path: &str) -> bool {
    let pairs = path.as_bytes().windows(2);
    pairs.into_iter().any(|pair| pair[0] == b'%' || matches!(pair, b"//" | b"/."))
}

/// As far as decoding cannot change its structure.
fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut plain = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte)) {
            Some(byte) => {
                plain.push(byte.into());
                rest = &after[2..];
            }
            None => {
                plain.push('%');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Without empty segments and with `.` and `..` walked (RFC 3986, 5.2.4); a slash at the end stays.
fn resolved(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let ends_open = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    let slash = if ends_open && !segments.is_empty() { "/" } else { "" };
    format!("/{}{slash}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(paths: &[&'static str]) -> Table<&'static str> {
        let methods = [Method::POST];
        Table::new(paths.iter().map(|path| (*path, &methods[..], Arc::new(*path))))
    }

    fn found(table: &Table<&'static str>, path: &str) -> Option<&'static str> {
        table.find(&Method::POST, path).map(|route| **route)
    }

    #[test]
    fn the_most_specific_path_wins_whatever_the_order() {
        let mut paths =
            ["/{*all}", "/v1/{*rest}", "/v1/{id}", "/v1/pay-{id}", "/v1/me", "/v1/{a}/x"];
        for _ in 0..2 {
            let table = table(&paths);
            for (path, wins) in [
                ("/v1/me", "/v1/me"),
                ("/v1/pay-7", "/v1/pay-{id}"),
                ("/v1/7", "/v1/{id}"),
                ("/v1/7/x", "/v1/{a}/x"),
                ("/v1/me/x", "/v1/{a}/x"),
                ("/v1/7/y", "/v1/{*rest}"),
                ("/v1/7/x/z", "/v1/{*rest}"),
                ("/v2", "/{*all}"),
                ("/", "/{*all}"),
            ] {
                assert_eq!(found(&table, path), Some(wins), "{path}");
            }
            paths.reverse();
        }
    }

    #[test]
    fn a_rest_may_be_nothing() {
        let table = table(&["/v1/payments/{*rest}"]);
        for path in ["/v1/payments", "/v1/payments/", "/v1/payments/7/refunds"] {
            assert!(found(&table, path).is_some(), "{path}");
        }
        for path in ["/v1/paymentsx", "/v1", "/v1/payment", "/", "*", ""] {
            assert_eq!(found(&table, path), None, "{path}");
        }
    }

    #[test]
    fn a_more_specific_path_without_the_method_gives_way() {
        let (post, patch) = ([Method::POST], [Method::PATCH]);
        let table = Table::new([
            ("/v1/{*rest}", &post[..], Arc::new("rest")),
            ("/v1/me", &patch[..], Arc::new("me")),
        ]);
        assert_eq!(table.find(&Method::POST, "/v1/me").map(|route| **route), Some("rest"));
        assert_eq!(table.find(&Method::PATCH, "/v1/me").map(|route| **route), Some("me"));
        assert!(table.find(&Method::GET, "/v1/me").is_none());
    }

    #[test]
    fn an_encoded_letter_is_no_way_around_and_an_encoded_slash_stays_one_segment() {
        let table = table(&["/v1/payments", "/v1/{id}"]);
        assert_eq!(found(&table, "/v1/%70ayments"), Some("/v1/payments"));
        assert_eq!(found(&table, "/v1/a%2Fb"), Some("/v1/{id}"));
        assert_eq!(found(&table, "/v1/%zz%7"), Some("/v1/{id}"));
        assert_eq!(found(&table, "/%761/payments"), Some("/v1/payments"));
    }

    #[test]
    fn a_detour_is_no_way_around() {
        let table = table(&["/v1/payments", "/v1/refunds/{*rest}", "/{*rest}"]);
        for path in [
            "/v1//payments",
            "//v1/payments",
            "/v1/./payments",
            "/v1/x/../payments",
            "/./v1/x/y/../../payments",
            "/../v1/payments",
            "/v1/%2e/payments",
            "/v1/x/%2E%2e/payments",
            "/v1/.well-known/..//payments",
        ] {
            assert_eq!(found(&table, path), Some("/v1/payments"), "{path}");
        }
        assert_eq!(found(&table, "/v1/refunds//7/.."), Some("/v1/refunds/{*rest}"));
        // What nobody resolves alike is taken as it is.
        for path in ["/v1/payments;a=1", "/v1/x%2F..%2Fpayments", "/v1/...", "/v1/payments/..x"] {
            assert_eq!(found(&table, path), Some("/{*rest}"), "{path}");
        }
    }

    #[test]
    fn a_path_that_only_an_upstream_of_its_own_kind_knows_is_still_guarded() {
        let table = table(&["/raw/{*rest}"]);
        assert_eq!(found(&table, "/raw/../elsewhere"), Some("/raw/{*rest}"));
        assert_eq!(found(&table, "/elsewhere/../raw/7"), Some("/raw/{*rest}"));
    }

    #[test]
    fn a_path_is_resolved_with_the_slash_at_its_end() {
        for (path, plain) in [
            ("/", "/"),
            ("//", "/"),
            ("/..", "/"),
            ("/a/", "/a/"),
            ("/a//", "/a/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../", "/a/"),
            ("/a/..b/.c", "/a/..b/.c"),
        ] {
            assert_eq!(resolved(path), plain, "{path}");
        }
    }
}
