//! Everything that runs during the comparison, started when the first row asks for it.

use std::collections::HashMap;
use std::time::Duration;

use crate::probe;
use crate::proxies::{self, Proxy, Tiers};
use crate::rows::Who;
use crate::support::family;
use crate::support::servers::{self, Kind};
use crate::support::{MySql, Redis, Server};
use crate::upstream::{self, Upstream};

/// The key that the hot replay asks for again and again.
pub const HOT_KEY: &str = "hot-key";

pub struct Bed {
    // Those in front end before what they stand on.
    running: HashMap<Who, Proxy>,
    servers: Option<Servers>,
    pub upstream: Upstream,
    cores: usize,
}

struct Servers {
    mysql: MySql,
    redis: Redis,
}

impl Bed {
    pub fn start(cores: usize) -> Result<Self, String> {
        let upstream = Upstream::start()?;
        Ok(Self { running: HashMap::new(), servers: None, upstream, cores })
    }

    /// Starts it, and checks one answer, unless it runs already.
    pub fn proxy(&mut self, who: Who) -> Result<&Proxy, String> {
        if !self.running.contains_key(&who) {
            let proxy = self.start_proxy(who)?;
            check(who, &proxy)?;
            self.running.insert(who, proxy);
        }
        Ok(&self.running[&who])
    }

    fn start_proxy(&mut self, who: Who) -> Result<Proxy, String> {
        let (cores, upstream) = (self.cores, self.upstream.addr());
        let embedded = Tiers { durable: None, fast: "memory:".into() };
        match who {
            Who::Nginx => proxies::nginx_proxy(cores, upstream),
            Who::HaProxy => proxies::haproxy(cores, upstream),
            Who::NginxConstant => proxies::nginx("constant", cores, &upstream::constant()),
            Who::Gateway | Who::Embedded => proxies::oncegate(&embedded, upstream),
            Who::Servers | Who::SecondOnServers => proxies::oncegate(&self.tiers()?, upstream),
        }
    }

    fn tiers(&mut self) -> Result<Tiers, String> {
        if self.servers.is_none() {
            for (kind, name) in [(Kind::MySql, "MySQL"), (Kind::Redis, "Redis")] {
                if !servers::available(kind) {
                    return Err(format!("{name} is not there; loadtest/compare gets it"));
                }
            }
            // The sizes that it has by default; the tests' are smaller.
            let mysql = MySql::start_with(&[
                "--innodb-buffer-pool-size=128M",
                "--innodb-redo-log-capacity=100M",
            ]);
            self.servers = Some(Servers { mysql, redis: Redis::start() });
        }
        let servers = self.servers.as_ref().expect("started above");
        // Without TLS, which would be most of the work on one machine.
        let durable = Some(servers.mysql.url() + "?ssl-mode=DISABLED");
        Ok(Tiers { durable, fast: servers.redis.url() })
    }

    /// Used so far by MySQL and Redis.
    pub fn servers_cpu(&self) -> Duration {
        let Some(Servers { mysql, redis }) = &self.servers else {
            return Duration::ZERO;
        };
        family::cpu_time(mysql.instance().pid()) + family::cpu_time(redis.instance().pid())
    }

    /// Ends it, if it runs; a gateway has to end with success.
    pub fn stop(&mut self, who: Who) -> Result<(), String> {
        let ended = self.running.remove(&who).map_or(Ok(()), Proxy::stop);
        if who.is_gateway() { ended } else { Ok(()) }
    }

    /// Ends all in good order; who did not, with its last words.
    pub fn stop_all(mut self) -> Vec<String> {
        let running: Vec<Who> = self.running.keys().copied().collect();
        let stopped = running.into_iter().map(|who| (who, self.stop(who)));
        stopped.filter_map(|(who, end)| end.err().map(|why| format!("{who:?}: {why}"))).collect()
    }
}

/// One answer of each kind that will be measured, byte for byte.
fn check(who: Who, proxy: &Proxy) -> Result<(), String> {
    let expect = |method: &str, path: &str, headers: &str, status: Option<&str>| {
        let answer = probe::ask(proxy.addr(), method, path, headers, "{}");
        let answer = answer.map_err(|e| format!("{method} {path}: {e}"))?;
        let said = answer.header("idempotency-status");
        if answer.status == 200 && said == status && answer.body == upstream::body() {
            return Ok(());
        }
        Err(format!("{method} {path}, expected {status:?}: {answer:?}"))
    };
    expect("GET", "/plain", "", None)?;
    expect("POST", "/plain", "", None)?;
    if who == Who::Gateway {
        let key = format!("Idempotency-Key: {HOT_KEY}-checked\r\n");
        expect("POST", "/v1/payments", &key, Some("executed"))?;
        expect("POST", "/v1/payments", &key, Some("replayed"))?;
    }
    Ok(())
}
