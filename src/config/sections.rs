//! The smaller tables of the file: what each holds, its defaults and its bounds.

use std::path::PathBuf;
use std::time::Duration;

use super::mistakes::Wrong;
use super::reader::{Reader, Section};
use super::secret::SecretUrl;
use super::setting::words;
use super::units::Size;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const DAY: Duration = Duration::from_secs(86_400);
pub(super) const LONGEST_TTL: Duration = Duration::from_secs(3650 * 86_400);
/// Shorter than this is a slip, and would keep a core busy.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The pool of connections to each upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    pub max: u32,
    pub acquire_timeout: Duration,
    pub connect_timeout: Duration,
    pub idle_timeout: Duration,
    pub max_age: Duration,
    pub http2: Http2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2 {
    /// As ALPN says over TLS, HTTP/1.1 in the clear.
    Auto,
    Never,
    PriorKnowledge,
}

/// TLS in front: PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub max_connections: u32,
    pub header_timeout: Duration,
    pub body_idle_timeout: Duration,
    pub idle_timeout: Duration,
    pub max_header_bytes: usize,
    pub max_in_flight: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Trusted instead of the system's, for upstreams with a private authority.
    pub ca: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciler {
    pub interval: Duration,
    pub stuck_after: Duration,
    pub settle_after: Duration,
    pub probe_url: Option<SecretUrl>,
    pub callback_url: Option<SecretUrl>,
}

/// What holds for records of the decision API; the rest comes with each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How long a finished one is kept, from completion.
    pub ttl: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Janitor {
    pub interval: Duration,
    pub batch: u32,
}

words!(Http2, "\"auto\", \"never\" or \"prior-knowledge\"",
    "auto" => Http2::Auto, "never" => Http2::Never, "prior-knowledge" => Http2::PriorKnowledge);

/// The scheme alone is repeated, never the URL.
pub(super) fn scheme_of(url: &SecretUrl, schemes: &[&str], expected: &str) -> Result<(), Wrong> {
    match schemes.contains(&url.scheme()) {
        true => Ok(()),
        false => Err(Wrong::new(format!("it starts with {:?}", url.scheme()))
            .hint(format!("use {expected}"))),
    }
}

impl Connections {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("connections");
        let connections = Self {
            max: section.within("max", 256, (1, 100_000)),
            acquire_timeout: section.get("acquire_timeout", SECOND),
            connect_timeout: section.within("connect_timeout", SECOND, (TICK, DAY)),
            idle_timeout: section.get("idle_timeout", 60 * SECOND),
            max_age: section.within("max_age", 600 * SECOND, (TICK, 365 * DAY)),
            http2: section.get("http2", Http2::Auto),
        };
        section.done(&[]);
        connections
    }
}

impl Tls {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut section = reader.section("tls");
        let cert: Option<PathBuf> = section.get("cert", None);
        let key: Option<PathBuf> = section.get("key", None);
        pem(&mut section, "cert", cert.as_ref(), "CERTIFICATE-----");
        pem(&mut section, "key", key.as_ref(), "PRIVATE KEY-----");
        if cert.is_some() != key.is_some() {
            let (there, missing) = if cert.is_some() { ("cert", "key") } else { ("key", "cert") };
            section.wrong(there, Wrong::new(format!("tls.{missing} is missing beside it")));
        }
        section.done(&[]);
        Some(Self { cert: cert?, key: key? })
    }
}

impl UpstreamTls {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("upstream_tls");
        let ca: Option<PathBuf> = section.get("ca", None);
        pem(&mut section, "ca", ca.as_ref(), "CERTIFICATE-----");
        section.done(&[]);
        Self { ca }
    }
}

/// Found out before anything is bound, not at the first handshake.
fn pem(section: &mut Section<'_, '_>, key: &str, path: Option<&PathBuf>, holds: &str) {
    let Some(path) = path else { return };
    if let Some(text) = section.file(key, path)
        && !text.contains(holds)
    {
        let what = format!("{} is no PEM file with -----BEGIN … {holds}", path.display());
        section.wrong(key, Wrong::new(what));
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            header_timeout: 10 * SECOND,
            body_idle_timeout: 30 * SECOND,
            idle_timeout: 60 * SECOND,
            max_header_bytes: 64 << 10,
            max_in_flight: 1024,
        }
    }
}

impl Limits {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("limits");
        let usual = Self::default();
        let (duration, count) = ((TICK, DAY), (1, 10_000_000));
        // The HTTP library takes no buffer below 8 KiB.
        let header_bytes = (Size(8 << 10), Size(16 << 20));
        let usual_header_bytes = Size(usual.max_header_bytes);
        let limits = Self {
            max_connections: section.within("max_connections", usual.max_connections, count),
            header_timeout: section.within("header_timeout", usual.header_timeout, duration),
            body_idle_timeout: section.within(
                "body_idle_timeout",
                usual.body_idle_timeout,
                duration,
            ),
            idle_timeout: section.within("idle_timeout", usual.idle_timeout, duration),
            max_header_bytes: section
                .within("max_header_bytes", usual_header_bytes, header_bytes)
                .0,
            max_in_flight: section.within("max_in_flight", usual.max_in_flight, count),
        };
        section.done(&[]);
        limits
    }
}

impl Reconciler {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("reconciler");
        let web = |url: &Option<SecretUrl>| match url {
            Some(url) => scheme_of(url, &["http", "https"], "http:// or https://"),
            None => Ok(()),
        };
        let reconciler = Self {
            interval: section.within("interval", 30 * SECOND, (TICK, DAY)),
            stuck_after: section.get("stuck_after", 300 * SECOND),
            settle_after: section.get("settle_after", 600 * SECOND),
            probe_url: section.get_if("probe_url", None, web),
            callback_url: section.get_if("callback_url", None, web),
        };
        section.done(&[]);
        reconciler
    }
}

impl Decision {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("decision");
        let ttl = section.within("ttl", DAY, (SECOND / 10, LONGEST_TTL));
        section.done(&[]);
        Self { ttl }
    }
}

impl Janitor {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("janitor");
        let janitor = Self {
            interval: section.within("interval", 60 * SECOND, (TICK, DAY)),
            batch: section.within("batch", 1000, (1, 100_000)),
        };
        section.done(&[]);
        janitor
    }
}
