//! The flags that every command with a configuration takes.
//!
//! All are plain text here: a bad value is a mistake like one in the file, listed with the others.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Default)]
pub struct Flags {
    /// The configuration file (`ONCEGATE_CONFIG`)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The API behind the gateway; several addresses of it with commas (`ONCEGATE_UPSTREAM`)
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// Where clients connect; 127.0.0.1:8080 if not set (`ONCEGATE_LISTEN`)
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Where the admin API and the console are; 127.0.0.1:8081 if not set (`ONCEGATE_ADMIN_LISTEN`)
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<String>,
    /// mysql://, postgres:// or sqlite://; sqlite://oncegate.db if not set (`ONCEGATE_DURABLE`)
    #[arg(long, value_name = "URL")]
    pub durable: Option<String>,
    /// redis://, rediss://, redis-cluster://, redis-sentinel://, memory: or none; memory: if not
    /// set (`ONCEGATE_FAST`)
    #[arg(long, value_name = "URL")]
    pub fast: Option<String>,
    /// What the admin listener asks for; other users of this machine can see it here, so rather
    /// set ONCEGATE_ADMIN_TOKEN
    #[arg(long, value_name = "TOKEN")]
    pub admin_token: Option<String>,
}

impl Flags {
    /// A file and nothing else.
    pub fn of_file(path: impl Into<PathBuf>) -> Self {
        Self { config: Some(path.into()), ..Self::default() }
    }

    /// The flag for a key and its value, if it was given.
    pub(super) fn get(&self, path: &str) -> Option<(&'static str, &str)> {
        let (flag, value) = match path {
            "upstream" => ("--upstream", &self.upstream),
            "listen" => ("--listen", &self.listen),
            "admin.listen" => ("--admin-listen", &self.admin_listen),
            "durable.url" => ("--durable", &self.durable),
            "fast.url" => ("--fast", &self.fast),
            "admin.token" => ("--admin-token", &self.admin_token),
            _ => return None,
        };
        value.as_deref().map(|value| (flag, value))
    }
}
