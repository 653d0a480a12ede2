//! The admin listener: where it is, and who may ask it what.
//!
//! Whoever reaches it can settle and forget records, so beyond this machine it asks for a token.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::mistakes::Wrong;
use super::reader::{Reader, Section};
use super::secret::Secret;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    pub listen: SocketAddr,
    pub token: Option<Secret>,
    /// May look, may not change anything.
    pub read_token: Option<Secret>,
    pub show_bodies: bool,
}

impl Admin {
    pub(super) fn read(reader: &mut Reader<'_>, front: SocketAddr) -> Self {
        let mut section = reader.section("admin");
        let listen = section.get("listen", SocketAddr::from(([127, 0, 0, 1], 8081)));
        let given: Option<Secret> = section.get("token", None);
        let token_file: Option<PathBuf> = section.get("token_file", None);
        let read_token: Option<Secret> = section.get("read_token", None);
        let show_bodies = section.get("show_bodies", false);

        if given.is_some() && token_file.is_some() {
            section.wrong("token_file", Wrong::new("token is given too; leave one of them out"));
        }
        let from_file = token_file.as_ref().and_then(|path| token_in(path, &mut section));
        let token = given.or(from_file);
        if token.is_none() && token_file.is_none() {
            if !listen.ip().is_loopback() {
                let hint = "give token, token_file or ONCEGATE_ADMIN_TOKEN, or listen on 127.0.0.1";
                let what = format!("missing, though {listen} can be reached from other machines");
                section.wrong("token", Wrong::new(what).hint(hint));
            } else if read_token.is_some() {
                section.wrong("read_token", Wrong::new("there is no token beside it"));
            }
        }
        if token.is_some() && token == read_token {
            section.wrong("read_token", Wrong::new("it is the same as token"));
        }
        if listen == front && listen.port() != 0 {
            section.wrong("listen", Wrong::new(format!("{listen} is where clients connect")));
        }
        section.done(&[]);
        Self { listen, token, read_token, show_bodies }
    }
}

fn token_in(path: &Path, section: &mut Section<'_, '_>) -> Option<Secret> {
    let token = Secret::new(section.file("token_file", path)?.trim());
    if token.is_none() {
        let what = format!("{} holds no token of visible ASCII characters", path.display());
        section.wrong("token_file", Wrong::new(what));
    }
    token
}
