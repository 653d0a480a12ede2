//! Free TCP ports that stay free until the server binds them, and across its restarts.
//!
//! They lie outside the range the kernel takes outgoing connections' ports from, or a client
//! could sit on a killed server's port. A claim is an abstract Unix socket: unique on the machine,
//! so other threads and other test processes keep off, and gone with the process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A port of 127.0.0.1 that nobody else in the test bed is given while this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    /// Claims a port nobody listens on.
    pub fn claim() -> Port {
        static NEXT: OnceLock<AtomicUsize> = OnceLock::new();
        let candidates = candidates();
        // Processes start at different places and go on from there, so that a released port is
        // not at once given to a server which would then meet the old one's clients.
        let next = NEXT.get_or_init(|| AtomicUsize::new(std::process::id() as usize * 97));
        for _ in 0..candidates.len() {
            let offset = next.fetch_add(1, Ordering::Relaxed) % candidates.len();
            let number = candidates.start + u16::try_from(offset).expect("an offset among ports");
            if let Some(claim) = claim(number)
                && TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).is_ok()
            {
                return Port { number, _claim: claim };
            }
        }
        panic!("no free port in {candidates:?}");
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

fn claim(port: u16) -> Option<UnixListener> {
    let name = UnixAddr::from_abstract_name(format!("oncegate-test-port-{port}"))
        .expect("a short name is a valid abstract socket name");
    UnixListener::bind_addr(&name).ok()
}

/// The larger of the two ranges below and above the ephemeral ports.
fn candidates() -> Range<u16> {
    const LOWEST: u16 = 10_000;
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .expect("the kernel tells its range of ephemeral ports");
    let mut bounds = text.split_whitespace().map(|bound| {
        bound.parse::<u16>().unwrap_or_else(|e| panic!("ephemeral port bound {bound:?}: {e}"))
    });
    let first = bounds.next().expect("the range has a first port");
    let last = bounds.next().expect("the range has a last port");
    let below = LOWEST..first.max(LOWEST);
    let above = last.saturating_add(1)..u16::MAX;
    if below.len() >= above.len() { below } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_and_not_ephemeral() {
        let (one, other) = (Port::claim(), Port::claim());
        assert_ne!(one.number(), other.number());
        assert!(candidates().contains(&one.number()));
        assert!(claim(one.number()).is_none(), "a claimed port cannot be claimed again");
    }
}
