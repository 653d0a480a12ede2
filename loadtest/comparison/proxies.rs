//! What is compared: programs that are started on a port of their own, asked for the processor
//! time that they used, and ended. Their files lie in throw-away folders.
//!
//! nginx and HAProxy are set up as somebody would who wants them fast and knows them: connections
//! to the upstream and to the clients are kept, nothing is logged, every core is used.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::probe;
use crate::support::family::{self, wait_until};
use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::scratch;

const START_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Proxy {
    // Dropped first: the folder can only be removed when nobody writes to it any more.
    process: Process,
    port: Port,
    _admin: Option<Port>,
    _folder: TempDir,
}

impl Proxy {
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Used so far, by all its processes and threads.
    pub fn cpu(&self) -> Duration {
        family::cpu_time(self.process.pid())
    }

    /// Ends it in good order.
    ///
    /// # Errors
    /// With its last words, when it does not end with success.
    pub fn stop(self) -> Result<(), String> {
        self.process.terminate();
        match self.process.exited() {
            Some(status) if status.success() => Ok(()),
            status => {
                Err(format!("it ended with {status:?} when asked to:\n{}", self.process.log_tail()))
            }
        }
    }
}

/// An nginx with these locations.
pub fn nginx(name: &str, workers: usize, locations: &str) -> Result<Proxy, String> {
    nginx_with(name, workers, locations, "")
}

pub fn nginx_proxy(workers: usize, upstream: SocketAddr) -> Result<Proxy, String> {
    let pool = format!(
        "upstream api {{ server {upstream}; keepalive 512; keepalive_requests 1000000000; \
         keepalive_timeout 600s; }}"
    );
    let location = "location / { proxy_pass http://api; proxy_http_version 1.1; \
        proxy_set_header Connection ''; proxy_set_header Host $http_host; \
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; \
        proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $http_host; }";
    nginx_with("nginx", workers, location, &pool)
}

fn nginx_with(name: &str, workers: usize, locations: &str, more: &str) -> Result<Proxy, String> {
    let (folder, port) = (scratch::folder(name), Port::claim());
    let at = |file: &str| folder.path().join(file).display().to_string();
    let mut settings = format!(
        "daemon off; worker_processes {workers}; pid {}; error_log stderr warn;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;\n",
        at("pid")
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(settings, "{kind}_temp_path {};", at(kind));
    }
    let addr = port.addr();
    let _ = writeln!(settings, "{more}\nserver {{ listen {addr} reuseport; {locations} }} }}");
    let file = written(&folder, "nginx.conf", &settings);
    let mut command = Command::new("nginx");
    command.args(["-e", "stderr", "-c", &file]);
    start(command, port, None, folder)
}

pub fn haproxy(threads: usize, upstream: SocketAddr) -> Result<Proxy, String> {
    let (folder, port) = (scratch::folder("haproxy"), Port::claim());
    let addr = port.addr();
    let settings = format!(
        "global\n  nbthread {threads}\n  maxconn 400\n\
         defaults\n  mode http\n  option http-keep-alive\n  http-reuse always\n  option forwardfor\n\
         \x20 timeout connect 5s\n  timeout client 600s\n  timeout server 60s\n\
         frontend clients\n  bind {addr}\n  default_backend api\n\
         backend api\n  server api {upstream}\n"
    );
    let file = written(&folder, "haproxy.cfg", &settings);
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f", &file]);
    start(command, port, None, folder)
}

/// The tiers of a gateway; without a URL, the durable one is an SQLite of its own.
#[derive(Clone)]
pub struct Tiers {
    pub durable: Option<String>,
    pub fast: String,
}

/// `oncegate serve`, as it was built together with this benchmark. POSTs below /v1/payments take
/// keys; everything else passes untouched.
pub fn oncegate(tiers: &Tiers, upstream: SocketAddr) -> Result<Proxy, String> {
    let (folder, port, admin) = (scratch::folder("gateway"), Port::claim(), Port::claim());
    let embedded = || format!("sqlite://{}", folder.path().join("records.db").display());
    let durable = tiers.durable.clone().unwrap_or_else(embedded);
    let settings = format!(
        "listen = \"{}\"\nupstream = \"http://{upstream}\"\n\
         [admin]\nlisten = \"{}\"\n\
         [durable]\nurl = \"{durable}\"\n\
         [fast]\nurl = \"{}\"\n\
         [connections]\nmax = 1024\nacquire_timeout = \"10s\"\n\
         [limits]\nmax_in_flight = 8192\n\
         [[routes]]\npath = \"/v1/payments/{{*rest}}\"\nmethods = [\"POST\"]\n\
         scope = \"payment\"\nkey = \"required\"\n",
        port.addr(),
        admin.addr(),
        tiers.fast
    );
    let file = written(&folder, "oncegate.toml", &settings);
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.args(["serve", "--config", &file]).current_dir(folder.path());
    start(command, port, Some(admin), folder)
}

fn written(folder: &TempDir, name: &str, text: &str) -> String {
    let file = folder.path().join(name);
    std::fs::write(&file, text).expect("a throw-away folder can be written to");
    file.display().to_string()
}

/// Starts the command and waits until it answers.
fn start(
    command: Command,
    port: Port,
    admin: Option<Port>,
    folder: TempDir,
) -> Result<Proxy, String> {
    let log = folder.path().join("log");
    let gateway = admin.is_some();
    let process = Process::start(command, &log);
    let proxy = Proxy { process, port, _admin: admin, _folder: folder };
    // The gateway says when it is ready; before, it may listen already.
    let said = || !gateway || says(&log, "listening on");
    let answers = || probe::get(proxy.addr(), "/").is_ok_and(|answer| answer.status == 200);
    let up =
        wait_until(START_TIMEOUT, || proxy.process.exited().is_some() || (said() && answers()));
    match proxy.process.exited() {
        None if up => Ok(proxy),
        None => Err(format!("it does not come up:\n{}", proxy.process.log_tail())),
        Some(status) => Err(format!("it ended ({status}):\n{}", proxy.process.log_tail())),
    }
}

fn says(log: &Path, words: &str) -> bool {
    std::fs::read_to_string(log).is_ok_and(|text| text.contains(words))
}
