//! The access log: a line for each request that somebody may ask about later.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde::Serialize;

use super::reply::{Reply, Trail};
use super::snapshot::IDEMPOTENCY_STATUS;
use crate::clock;
use crate::config::{AccessLog, LogFormat, LoggedKeys, Logs};
use crate::http::server::Peer;
use crate::idempotency::Identity;
use crate::telemetry::lines::Lines;
use crate::telemetry::metrics::Outcome;
use crate::telemetry::trace_context::TraceContext;
use crate::telemetry::traces;

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 128;

pub struct Access {
    which: AccessLog,
    json: bool,
    keys: LoggedKeys,
    /// None: there is nothing to write.
    lines: Option<Lines>,
}

/// What is kept of a request until it is answered.
pub struct Seen {
    method: Method,
    uri: Uri,
    client: IpAddr,
    request_id: Option<HeaderValue>,
    trace: Option<TraceContext>,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    client: IpAddr,
    method: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    status: u16,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
}

impl Access {
    pub fn new(logs: &Logs) -> Self {
        let json = match logs.format {
            LogFormat::Auto => !io::stderr().is_terminal(),
            LogFormat::Human => false,
            LogFormat::Json => true,
        };
        let lines = (logs.access != AccessLog::Off).then(|| Lines::start(io::stderr()));
        Self { which: logs.access, json, keys: logs.keys, lines }
    }

    /// None: there will be no line in any case.
    pub fn see(&self, head: &http::Request<impl Sized>, peer: Peer) -> Option<Seen> {
        (self.which != AccessLog::Off).then(|| Seen {
            method: head.method().clone(),
            uri: head.uri().clone(),
            client: peer.address.ip().to_canonical(),
            request_id: head.headers().get(X_REQUEST_ID).cloned(),
            trace: received(head.headers()),
        })
    }

    pub fn answered(&self, seen: &Seen, route: Option<&str>, reply: &Reply, took: Duration) {
        let Some(lines) = self.lines.as_ref().filter(|_| self.wants(reply)) else { return };
        let Trail { identity, attempt, tier, upstream, trace } = &reply.trail;
        let clear = identity.as_ref().filter(|_| self.keys == LoggedKeys::Clear);
        let response = &reply.response;
        let line = Line {
            time: clock::wall().to_string(),
            client: seen.client,
            method: seen.method.as_str(),
            path: seen.uri.path(),
            route,
            status: response.status().as_u16(),
            outcome: reply.outcome.map_or("shadow", Outcome::as_str),
            idempotency_status: text(response.headers().get(IDEMPOTENCY_STATUS)),
            tier: tier.map(|tier| tier.as_str()),
            attempt: *attempt,
            duration_ms: millis(took),
            upstream_ms: upstream.map(millis),
            scope: identity.as_ref().map(|identity| identity.scope().as_str()),
            key_hash: identity.as_ref().map(short_hash),
            tenant: clear.map(|identity| identity.tenant().as_str()),
            key: clear.map(|identity| identity.key().as_str()),
            request_id: text(seen.request_id.as_ref()).filter(|id| id.len() <= LONGEST_ID),
            trace_id: trace.or(seen.trace).map(|trace| trace.trace_id().to_string()),
        };
        // Into memory: neither can fail.
        lines.add(|text| {
            if self.json {
                let _ = serde_json::to_writer(&mut *text, &line);
                text.push(b'\n');
            } else {
                let _ = line.write(text);
            }
        });
    }

    /// Returns when every line is written.
    pub fn finish(&self) {
        if let Some(lines) = &self.lines {
            lines.finish();
        }
    }

    fn wants(&self, reply: &Reply) -> bool {
        let fine = match reply.outcome {
            None | Some(Outcome::Executed | Outcome::Replayed | Outcome::Untouched) => {
                !reply.response.status().is_server_error()
            }
            Some(_) => false,
        };
        match self.which {
            AccessLog::Off => false,
            AccessLog::Problems => !fine,
            AccessLog::Keyed => !fine || reply.outcome != Some(Outcome::Untouched),
            AccessLog::All => true,
        }
    }
}

impl Line<'_> {
    fn write(&self, to: &mut Vec<u8>) -> io::Result<()> {
        write!(to, "{} {} {} {} {}", self.time, self.client, self.method, self.path, self.status)?;
        write!(
            to,
            " {} in {} ms",
            self.idempotency_status.unwrap_or(self.outcome),
            self.duration_ms
        )?;
        let mut also = |name: &str, value: Option<&dyn Display>| match value {
            Some(value) => write!(to, ", {name} {value}"),
            None => Ok(()),
        };
        also("upstream ms", self.upstream_ms.as_ref().map(|ms| ms as &dyn Display))?;
        also("attempt", self.attempt.as_ref().map(|attempt| attempt as &dyn Display))?;
        also("from tier", self.tier.as_ref().map(|tier| tier as &dyn Display))?;
        also("route", self.route.as_ref().map(|route| route as &dyn Display))?;
        also("key hash", self.key_hash.as_ref().map(|hash| hash as &dyn Display))?;
        also("tenant", self.tenant.as_ref().map(|tenant| tenant as &dyn Display))?;
        also("key", self.key.as_ref().map(|key| key as &dyn Display))?;
        also("request", self.request_id.as_ref().map(|id| id as &dyn Display))?;
        also("trace", self.trace_id.as_ref().map(|id| id as &dyn Display))?;
        writeln!(to)
    }
}

/// The trace that a client belongs to.
pub fn received(headers: &HeaderMap) -> Option<TraceContext> {
    let mut sent = headers.get_all(TRACEPARENT).iter();
    // Two of them are none.
    let one = sent.next().filter(|_| sent.next().is_none())?;
    TraceContext::parse(one.as_bytes())
}

/// Puts this hop's own step into the trace, or begins one.
pub fn step(head: &mut Parts) -> TraceContext {
    let own = || received(&head.headers).map_or_else(TraceContext::fresh, TraceContext::child);
    let step = traces::current().unwrap_or_else(own);
    if let Ok(value) = HeaderValue::try_from(step.to_string()) {
        head.headers.insert(TRACEPARENT, value);
    }
    step
}

fn short_hash(identity: &Identity) -> String {
    let [a, b, c, d, e, f, ..] = identity.digest();
    format!("{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}")
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| value.to_str().ok())
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
