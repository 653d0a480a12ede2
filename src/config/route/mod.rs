//! A route: which requests it is about, and all that holds for them.
//!
//! `[defaults]` may hold any key of a route but its path; a route overrides it key by key. What the
//! gateway gets is whole: nothing is looked up or inherited any more when a request comes.

mod paths;
mod words;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};

use crate::idempotency::fingerprint::FingerprintRules;
use crate::idempotency::key::{KEY_MAX_LENGTH, KeyPattern, KeyRules};
use crate::idempotency::{Policy, ReplayTo, Scope};

use super::mistakes::Wrong;
use super::reader::{Reader, Section};
use super::sections::{DAY, LONGEST_TTL, SECOND};
use super::units::Size;
use super::upstream::Upstream;
use paths::{PathPattern, Taken};
use words::{FingerprintSetting, Pattern, RateLimitSetting};

pub use words::{KeyFrom, Mode, Need, Per, RateLimit, TenantFrom};

const EVERY_PATH: &str = "/{*rest}";

#[derive(Clone, Debug)]
pub struct Route {
    /// In matchit's syntax.
    pub path: String,
    pub methods: Vec<Method>,
    pub scope: Scope,
    pub mode: Mode,
    pub key: Need,
    pub key_from: KeyFrom,
    pub key_rules: KeyRules,
    pub tenant_from: TenantFrom,
    pub fingerprint: FingerprintRules,
    pub mismatch_status: StatusCode,
    pub policy: Arc<Policy>,
    /// The most that a client may ask to wait.
    pub wait_max: Duration,
    pub timeout: Duration,
    pub transient_statuses: Vec<StatusCode>,
    pub unknown_statuses: Vec<StatusCode>,
    pub snapshot_max_bytes: usize,
    /// Besides the hop-by-hop headers, which are never stored.
    pub snapshot_headers_drop: Vec<HeaderName>,
    pub request_max_bytes: usize,
    pub rate_limit: Option<RateLimit>,
    /// The route's own, or the one at the top.
    pub upstream: Upstream,
}

/// Every route of the file, or the one that stands when there is none. `settle_after` is the
/// reconciler's.
pub(super) fn read_all(
    reader: &mut Reader<'_>,
    upstream: &Upstream,
    settle_after: Duration,
) -> Vec<Arc<Route>> {
    let mut defaults = reader.defaults();
    read_keys(&mut defaults, upstream, settle_after, EVERY_PATH.into());
    defaults.refuse("path", "every route has a path of its own");
    defaults.done(&[]);

    let tables = reader.routes();
    if tables.is_empty() {
        let mut section = reader.route(0, None);
        let path = section.get("path", PathPattern(EVERY_PATH.into()));
        return vec![Arc::new(read_keys(&mut section, upstream, settle_after, path.0))];
    }
    let mut taken = Taken::default();
    let mut routes = Vec::new();
    for (index, table) in tables {
        let mut section = reader.route(index, Some(table));
        // What stands in for a wrong path is not compared with others.
        let none = PathPattern(String::new());
        let path = section.required("path", none, "such as \"/v1/payments/{*rest}\"").0;
        let route = read_keys(&mut section, upstream, settle_after, path);
        for wrong in taken.take(index, &route) {
            section.wrong("path", wrong);
        }
        section.done(&[]);
        routes.push(Arc::new(route));
    }
    routes
}

/// All keys but the path. Their order is the order of the effective configuration.
fn read_keys(
    section: &mut Section<'_, '_>,
    top: &Upstream,
    settle_after: Duration,
    path: String,
) -> Route {
    let usual = Policy::default();
    let statuses = |codes: &[u16]| -> Vec<StatusCode> {
        codes.iter().filter_map(|code| StatusCode::from_u16(*code).ok()).collect()
    };
    let methods = section.get_if("methods", vec![Method::POST, Method::PATCH], |methods| {
        match methods.is_empty() {
            true => Err(Wrong::new("a route has at least one method")),
            false => Ok(()),
        }
    });
    let scope = section.get("scope", Scope::default());
    let mode = section.get("mode", Mode::Enforce);
    let key = section.get("key", Need::Optional);
    let key_from = section.get("key_from", KeyFrom::default());
    let longest = u32::try_from(KEY_MAX_LENGTH).unwrap_or(u32::MAX);
    let key_max_length = section.within("key_max_length", longest, (1, longest));
    let key_pattern: Option<Pattern> = section.get("key_pattern", None);
    let tenant_from = section.get("tenant_from", TenantFrom::Credential);
    let fingerprint = section.get("fingerprint", FingerprintSetting::default());
    let mismatch_status = section.get_if("mismatch_status", StatusCode::CONFLICT, |status| {
        match status.is_client_error() {
            true => Ok(()),
            false => Err(Wrong::new(format!("{} is not 400 to 499", status.as_str()))),
        }
    });
    let ttl = section.within("ttl", usual.ttl, (SECOND / 10, LONGEST_TTL));
    let lease = section.within("lease", usual.lease, (SECOND / 10, DAY));
    let wait = section.within("wait", usual.wait, (Duration::ZERO, DAY));
    let wait_max = section.within("wait_max", wait.max(10 * SECOND), (Duration::ZERO, DAY));
    let timeout = section.within("timeout", 30 * SECOND, (SECOND / 1000, 7 * DAY));
    // A list that somebody wrote takes its members out of the other list's default.
    let mut transient_statuses = statuses(&[401, 403, 408, 425, 429, 503]);
    let unknown: Vec<StatusCode> = section.given("unknown_statuses").unwrap_or_default();
    transient_statuses.retain(|status| !unknown.contains(status));
    let transient_statuses = section.get("transient_statuses", transient_statuses);
    let mut unknown_statuses = statuses(&[502, 504]);
    unknown_statuses.retain(|status| !transient_statuses.contains(status));
    let unknown_statuses = section.get("unknown_statuses", unknown_statuses);
    let when_failed = section.get("when_failed", usual.when_failed);
    let when_unknown = section.get("when_unknown", usual.when_unknown);
    let max_attempts = section.within("max_attempts", usual.max_attempts, (1, 1_000_000));
    let retry_backoff = section.get("retry_backoff", usual.retry_backoff);
    let Size(snapshot_max_bytes) = section.get("snapshot_max_bytes", Size(1 << 20));
    let snapshot_headers_drop =
        section.get("snapshot_headers_drop", vec![http::header::SET_COOKIE]);
    let Size(request_max_bytes) = section.get("request_max_bytes", Size(1 << 20));
    let rate_limit = section.get("rate_limit", RateLimitSetting(None)).0;
    let upstream: Option<Upstream> = section.get("upstream", None);

    if wait > wait_max {
        let (own, told) = match section.nearer("wait", "wait_max") {
            "wait" => ("wait", Wrong::new("it is longer than wait_max")),
            own => (own, Wrong::new("it is shorter than wait")),
        };
        section.wrong(own, told.hint("raise wait_max, or leave it out: it is at least wait then"));
    }
    if let Some(both) = transient_statuses.iter().find(|status| unknown_statuses.contains(status)) {
        let own = section.nearer("unknown_statuses", "transient_statuses");
        let other = match own {
            "unknown_statuses" => "transient_statuses",
            _ => "unknown_statuses",
        };
        let hint = "a status says that nothing was done, or that nobody knows";
        let what = format!("{} is in {other} too", both.as_str());
        section.wrong(own, Wrong::new(what).hint(hint));
    }
    let pattern = key_pattern.map_or(KeyPattern::VisibleAscii, |Pattern { pattern, .. }| pattern);
    let replay_to = match tenant_from {
        TenantFrom::Header(_) => ReplayTo::AnyCredential,
        TenantFrom::Credential | TenantFrom::None => ReplayTo::SameCredential,
    };
    let policy = Policy {
        ttl,
        lease,
        settle_after,
        wait,
        when_failed,
        when_unknown,
        max_attempts,
        retry_backoff,
        replay_to,
        origin: crate::idempotency::Origin::Call,
    };
    Route {
        path,
        methods,
        scope,
        mode,
        key,
        key_from,
        // The length was checked where its key stands.
        key_rules: KeyRules::new(key_max_length as usize, pattern).unwrap_or_default(),
        tenant_from,
        fingerprint: fingerprint.rules(),
        mismatch_status,
        policy: Arc::new(policy),
        wait_max,
        timeout,
        transient_statuses,
        unknown_statuses,
        snapshot_max_bytes,
        snapshot_headers_drop,
        request_max_bytes,
        rate_limit,
        upstream: upstream.unwrap_or_else(|| top.clone()),
    }
}
