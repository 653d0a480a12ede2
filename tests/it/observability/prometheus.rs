//! A real Prometheus that scrapes one gateway many times a second, with the rules of `grafana/`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::files;
use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::{Ask, eventually, scratch};

const START_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Prometheus {
    port: Port,
    process: Process,
    _folder: TempDir,
}

impl Prometheus {
    pub async fn start(target: SocketAddr) -> Self {
        let (folder, port) = (scratch::folder("prometheus"), Port::claim());
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, configuration(target)).expect("its configuration can be written");
        let mut command = Command::new("prometheus");
        command
            .arg(option("config.file", &file))
            .arg(option("storage.tsdb.path", &folder.path().join("data")))
            .arg(format!("--web.listen-address={}", port.addr()));
        let process = Process::start(command, &folder.path().join("log"));
        let prometheus = Self { port, process, _folder: folder };
        eventually("Prometheus is ready", START_TIMEOUT, async || {
            let exited = prometheus.process.exited();
            assert!(exited.is_none(), "{exited:?}: {}", prometheus.process.log_tail());
            let ready = Ask::new(prometheus.port.addr(), "GET", "/-/ready").try_send().await;
            ready.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        prometheus
    }

    /// The series that a query answers with now.
    ///
    /// # Panics
    /// When Prometheus does not understand the query.
    pub async fn series(&self, query: &str) -> Vec<Value> {
        let answer = Ask::new(self.port.addr(), "POST", "/api/v1/query")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(
                url::form_urlencoded::Serializer::new(String::new())
                    .append_pair("query", query)
                    .finish(),
            )
            .send()
            .await;
        let mut json = answer.json();
        assert_eq!(json["status"], "success", "{query}: {json}");
        match json["data"]["result"].take() {
            Value::Array(series) => series,
            other => panic!("{query}: no series but {other}"),
        }
    }
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

fn configuration(target: SocketAddr) -> String {
    let rules = files::folder().join("prometheus");
    format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 500ms}}\n\
         rule_files: ['{rules}/rules.yml', '{rules}/alerts.yml']\n\
         scrape_configs:\n  - job_name: oncegate\n    static_configs: [{{targets: ['{target}']}}]\n",
        rules = rules.display(),
    )
}
