//! MySQL, run from a Debian tree in the cache folder (Debian's releases only have MariaDB)
//! through that tree's own loader and libraries, so that no chroot and no root rights are needed.
//! Durability settings are MySQL's defaults; only sizes are smaller.

use std::path::Path;
use std::process::Command;

use super::binaries::{Kind, is_root, mysql_root, needed, version};
use super::instance::{Instance, Recipe};
use super::{DatabaseServer, FIRST_DATABASE, Server, prepared, wire};
use crate::support::process::run;

pub struct MySql {
    instance: Instance,
}

impl MySql {
    pub fn start() -> MySql {
        MySql::start_with(&[])
    }

    /// With more arguments, which win over those that keep it small.
    pub fn start_with(arguments: &'static [&'static str]) -> MySql {
        let recipe = Recipe {
            name: "mysql",
            command: Box::new(move |folder, port| {
                let mut command = serve(&folder.join("data"), port);
                command.args(arguments);
                command
            }),
            ready: |port| wire::mysql(port, "DO 1"),
            stop_signal: libc::SIGTERM,
        };
        let name = format!("mysql-{}-1", version(mysqld()));
        let server = MySql {
            instance: Instance::start(recipe, |folder| {
                prepared::copy(&name, initialize, &folder.join("data"));
            }),
        };
        server.execute(&format!("CREATE DATABASE {FIRST_DATABASE}"));
        server
    }
}

impl Server for MySql {
    fn instance(&self) -> &Instance {
        &self.instance
    }

    fn url(&self) -> String {
        self.url_of(FIRST_DATABASE)
    }
}

impl DatabaseServer for MySql {
    fn url_of(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port())
    }

    fn execute(&self, sql: &str) {
        wire::mysql(self.port(), sql).unwrap_or_else(|e| panic!("MySQL refuses {sql}: {e}"));
    }
}

fn mysqld() -> Command {
    let program = needed(Kind::MySql);
    let root = mysql_root();
    let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|dir| root.join(dir));
    let mut command = Command::new(root.join("lib64/ld-linux-x86-64.so.2"));
    command
        .arg("--library-path")
        .arg(std::env::join_paths(libraries).expect("the cache folder's path has no colon"))
        .arg(program)
        .arg("--no-defaults");
    command
}

/// What the making of the data folder and the server have in common.
fn mysqld_on(data: &Path) -> Command {
    let root = mysql_root();
    let mut command = mysqld();
    let mut option = |name: &str, path: &Path| {
        command.arg(format!("--{name}={}", path.display()));
    };
    option("basedir", &root.join("usr"));
    option("lc-messages-dir", &root.join("usr/share/mysql"));
    option("plugin-dir", &root.join("usr/lib/mysql/plugin"));
    option("datadir", data);
    if is_root() {
        // It runs as root only when told so.
        command.arg("--user=root");
    }
    command
}

fn initialize(data: &Path) {
    let mut command = mysqld_on(data);
    command.args(["--initialize-insecure", "--innodb-redo-log-capacity=8M"]);
    run(command);
}

fn serve(data: &Path, port: u16) -> Command {
    let mut command = mysqld_on(data);
    command.arg(format!("--port={port}")).args([
        "--bind-address=127.0.0.1",
        // Relative to the data folder: the whole path may be too long for a socket.
        "--socket=mysqld.sock",
        "--mysqlx=OFF",
        "--secure-file-priv=NULL",
        "--performance-schema=OFF",
        "--innodb-buffer-pool-size=32M",
        "--innodb-redo-log-capacity=32M",
        "--max-connections=500",
    ]);
    command
}
