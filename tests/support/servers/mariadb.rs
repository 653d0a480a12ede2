//! MariaDB as Debian installs it, with its default durability settings and smaller sizes.

use std::path::Path;
use std::process::Command;

use super::binaries::{Kind, in_path, is_root, needed, version};
use super::instance::{Instance, Recipe};
use super::{DatabaseServer, FIRST_DATABASE, Server, prepared, wire};
use crate::support::process::run;

pub struct MariaDb {
    instance: Instance,
}

impl MariaDb {
    pub fn start() -> MariaDb {
        MariaDb::start_with(&[])
    }

    /// With more arguments, which win over those that keep it small.
    pub fn start_with(arguments: &'static [&'static str]) -> MariaDb {
        let recipe = Recipe {
            name: "mariadb",
            command: Box::new(move |folder, port| {
                let mut command = serve(&folder.join("data"), port);
                command.args(arguments);
                command
            }),
            ready: |port| wire::mysql(port, "DO 1"),
            stop_signal: libc::SIGTERM,
        };
        let name = format!("mariadb-{}-1", version(Command::new(needed(Kind::MariaDb))));
        let server = MariaDb {
            instance: Instance::start(recipe, |folder| {
                prepared::copy(&name, initialize, &folder.join("data"));
            }),
        };
        server.execute(&format!("CREATE DATABASE {FIRST_DATABASE}"));
        server
    }
}

impl Server for MariaDb {
    fn instance(&self) -> &Instance {
        &self.instance
    }

    fn url(&self) -> String {
        self.url_of(FIRST_DATABASE)
    }
}

impl DatabaseServer for MariaDb {
    fn url_of(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port())
    }

    fn execute(&self, sql: &str) {
        wire::mysql(self.port(), sql).unwrap_or_else(|e| panic!("MariaDB refuses {sql}: {e}"));
    }
}

fn initialize(data: &Path) {
    let script = in_path("mariadb-install-db").expect("mariadb-install-db comes with mariadbd");
    let mut command = on(data, Command::new(script));
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    run(command);
}

fn serve(data: &Path, port: u16) -> Command {
    let mut command = on(data, Command::new(needed(Kind::MariaDb)));
    command.arg(format!("--port={port}")).args([
        "--bind-address=127.0.0.1",
        // Relative to the data folder: the whole path may be too long for a socket.
        "--socket=mysqld.sock",
        "--innodb-buffer-pool-size=32M",
        "--max-connections=500",
    ]);
    command
}

/// Adds what the making of the data folder and the server have in common.
fn on(data: &Path, mut command: Command) -> Command {
    command.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    // The same for both, or the server would first have to resize its log.
    command.arg("--innodb-log-file-size=16M");
    if is_root() {
        // It runs as root only when told so.
        command.arg("--user=root");
    }
    command
}
