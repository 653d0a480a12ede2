//! PostgreSQL with its default durability settings. It refuses to run as root, so that tests run
//! as root start it as another user, who then owns the data folder.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::binaries::{Kind, is_root, needed, version};
use super::instance::{Instance, Recipe};
use super::{DatabaseServer, FIRST_DATABASE, Server, prepared, wire};
use crate::support::process::run;

pub struct Postgres {
    instance: Instance,
}

impl Postgres {
    pub fn start() -> Postgres {
        Postgres::start_with(&[])
    }

    /// With more arguments, which win over those that keep it small.
    pub fn start_with(arguments: &'static [&'static str]) -> Postgres {
        let recipe = Recipe {
            name: "postgres",
            command: Box::new(move |folder, port| {
                let mut command = serve(&folder.join("data"), port);
                command.args(arguments);
                command
            }),
            ready: |port| wire::postgres(port, "SELECT 1"),
            // The "fast" shutdown; on SIGTERM it would wait for all clients to leave.
            stop_signal: libc::SIGINT,
        };
        let name = format!("postgres-{}-1", version(Command::new(needed(Kind::Postgres))));
        let server = Postgres {
            instance: Instance::start(recipe, |folder| {
                prepared::copy(&name, initialize, &folder.join("data"));
            }),
        };
        server.execute(&format!("CREATE DATABASE {FIRST_DATABASE}"));
        server
    }
}

impl Server for Postgres {
    fn instance(&self) -> &Instance {
        &self.instance
    }

    fn url(&self) -> String {
        self.url_of(FIRST_DATABASE)
    }
}

impl DatabaseServer for Postgres {
    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port())
    }

    fn execute(&self, sql: &str) {
        wire::postgres(self.port(), sql)
            .unwrap_or_else(|e| panic!("PostgreSQL refuses {sql}: {e}"));
    }
}

fn initialize(data: &Path) {
    std::fs::create_dir(data).expect("the data folder can be made");
    if let Some((user, group)) = other_user() {
        chown(data, Some(user), Some(group)).expect("root can give the data folder away");
    }
    let initdb = needed(Kind::Postgres).with_file_name("initdb");
    let mut command = unprivileged(&initdb);
    command.current_dir(data).arg("-D").arg(data).args([
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "--no-sync",
    ]);
    run(command);
}

fn serve(data: &Path, port: u16) -> Command {
    let mut command = unprivileged(&needed(Kind::Postgres));
    command.current_dir(data).arg("-D").arg(data).args(["-p", &port.to_string()]);
    for setting in [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "shared_buffers=32MB",
        "max_connections=300",
    ] {
        command.args(["-c", setting]);
    }
    command
}

fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = other_user() {
        command.uid(user).gid(group);
    }
    command
}

/// User and group to run as, when we are root.
fn other_user() -> Option<(u32, u32)> {
    if !is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("the list of users can be read");
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(|id| id.parse().ok());
        Some((ids.next()??, ids.next()??))
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("a user postgres or nobody exists"))
}
