//! One address of an upstream: how to get there, and which HTTP it speaks.
//!
//! Over TLS the server says so at the first handshake, and that is remembered; a failure makes it
//! forgotten, since behind the address may then be another server.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use http::uri::{Authority, Scheme};
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::socket::Stream;
use super::trust::Trust;
use crate::clock;
use crate::config::Http2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Speaks {
    NotKnownYet,
    Http1,
    Http2,
}

pub struct Address {
    host: String,
    port: u16,
    server_name: Option<ServerName<'static>>,
    http2: Http2,
    speaks: AtomicU8,
    pub scheme: Scheme,
    /// Stands in for a Host that is missing.
    pub authority: Option<Authority>,
}

impl Address {
    pub fn new(url: &Url, http2: Http2) -> Self {
        let encrypted = url.scheme() == "https";
        let (host, server_name) = match url.host() {
            Some(Host::Ipv4(ip)) => (ip.to_string(), Some(IpAddr::from(ip).into())),
            Some(Host::Ipv6(ip)) => (ip.to_string(), Some(IpAddr::from(ip).into())),
            Some(Host::Domain(name)) => (name.into(), ServerName::try_from(name.to_owned()).ok()),
            None => (String::new(), None),
        };
        let address = Self {
            host,
            port: url.port_or_known_default().unwrap_or(80),
            server_name: server_name.filter(|_| encrypted),
            http2,
            speaks: AtomicU8::new(0),
            scheme: if encrypted { Scheme::HTTPS } else { Scheme::HTTP },
            authority: url[url::Position::BeforeHost..url::Position::AfterPort].parse().ok(),
        };
        address.forget();
        address
    }

    pub fn speaks(&self) -> Speaks {
        match self.speaks.load(Ordering::Relaxed) {
            1 => Speaks::Http1,
            2 => Speaks::Http2,
            _ => Speaks::NotKnownYet,
        }
    }

    /// What the configuration alone says.
    pub fn configured(&self) -> Speaks {
        match self.http2 {
            Http2::PriorKnowledge => Speaks::Http2,
            Http2::Auto if self.scheme == Scheme::HTTPS => Speaks::NotKnownYet,
            Http2::Auto | Http2::Never => Speaks::Http1,
        }
    }

    pub fn may_speak_http2(&self) -> bool {
        self.configured() != Speaks::Http1
    }

    pub fn learn(&self, speaks: Speaks) {
        self.speaks.store(speaks as u8, Ordering::Relaxed);
    }

    pub fn forget(&self) {
        self.learn(self.configured());
    }

    /// Looks the host up, connects and shakes hands; offers what is wanted. No time limit for the
    /// whole: that is the caller's, whose `patience` is only shared out among several hosts.
    pub async fn dial(
        &self,
        wanted: Speaks,
        trust: &Trust,
        patience: Duration,
    ) -> Result<(Stream, Speaks), String> {
        let stream = self.dial_tcp(patience).await.map_err(|error| error.to_string())?;
        // Small writes go out at once; without this some answers take 40 ms longer.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        if self.scheme == Scheme::HTTP {
            return Ok((Stream::Plain(stream), wanted));
        }
        let config = match wanted {
            Speaks::NotKnownYet => &trust.either,
            Speaks::Http1 => &trust.http1,
            Speaks::Http2 => &trust.http2,
        };
        let name = self.server_name.clone().ok_or("no certificate can be for this host")?;
        let stream = TlsConnector::from(config.clone()).connect(name, stream).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let spoken = match (wanted, stream.get_ref().1.alpn_protocol()) {
            (Speaks::NotKnownYet, Some(b"h2")) => Speaks::Http2,
            (Speaks::NotKnownYet, _) => Speaks::Http1,
            (wanted, _) => wanted,
        };
        Ok((Stream::Tls(Box::new(stream)), spoken))
    }

    /// A name may stand for several hosts; each gets its share of the time, so that a silent one
    /// does not use it up.
    async fn dial_tcp(&self, patience: Duration) -> std::io::Result<TcpStream> {
        let give_up = clock::after(patience);
        let hosts: Vec<_> = lookup_host((self.host.as_str(), self.port)).await?.collect();
        let mut last = std::io::Error::other("no host has this name");
        for (tried, host) in hosts.iter().enumerate() {
            let left = give_up.saturating_duration_since(clock::now());
            let share = left / u32::try_from(hosts.len() - tried).unwrap_or(u32::MAX);
            match tokio::time::timeout(share, TcpStream::connect(host)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = std::io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.authority {
            Some(authority) => write!(f, "{}://{authority}", self.scheme),
            None => write!(f, "{}://{}:{}", self.scheme, self.host, self.port),
        }
    }
}
