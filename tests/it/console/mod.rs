//! The console in a real browser: what an operator sees and does, and what clients get afterwards.

mod appearance;
mod changes;
mod looking;
mod tokens;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::bed::{Database, Fresh};
use crate::support::servers::{self, Kind};
use crate::support::{Answer, Ask, Browser, End, Gateway, Launch, Reply, Upstream};

const PROGRAM: &str = env!("CARGO_BIN_EXE_oncegate");
const ROUTE: &str = "[[routes]]\npath = '/v1/payments/{*rest}'\nmethods = ['POST']\n\
                     scope = 'payment'\nkey = 'required'\ntenant_from = 'none'\n";

/// A gateway with its console open in a browser.
struct Desk {
    upstream: Upstream,
    gateway: Gateway,
    browser: Browser,
    durable: Fresh,
}

impl Desk {
    /// None: there is no browser on this machine.
    async fn open(admin: &str) -> Option<Self> {
        Self::open_with(admin, "").await
    }

    /// With more lines behind the `[admin]` table and before the routes.
    async fn open_with(admin: &str, more: &str) -> Option<Self> {
        Self::open_on(Database::Sqlite.fresh()?, admin, more).await
    }

    async fn open_on(durable: Fresh, admin: &str, more: &str) -> Option<Self> {
        if !servers::require(Kind::Chromium) {
            return None;
        }
        let upstream = Upstream::start().await;
        let config = format!("[admin]\n{admin}\n{more}\n{ROUTE}");
        let (gateway, browser) =
            tokio::join!(gateway(&upstream, &durable, &config), Browser::start());
        browser.size(1280, 800).await;
        browser.prefers("light").await;
        let desk = Self { upstream, gateway, browser, durable };
        desk.visit("").await;
        Some(desk)
    }

    fn url(&self) -> String {
        format!("http://{}/", self.gateway.admin())
    }

    async fn visit(&self, hash: &str) {
        self.browser.open(&format!("{}{hash}", self.url())).await;
    }

    /// Goes to a record's page, as a link in a message would.
    async fn visit_record(&self, key: &str) {
        self.visit(&format!("#record?tenant=&scope=payment&key={key}")).await;
    }

    /// A payment whose answer is lost: nobody knows whether it was made.
    async fn lose(&self, key: &str) {
        self.upstream.on("/v1/payments/lost", Reply::no_answer(End::Close));
        let answer = self.gateway.post("/v1/payments/lost", key, "{\"amount\":4200}").await;
        assert_eq!(answer.header("Idempotency-Status"), Some("upstream-broke-off"), "{answer:?}");
    }

    /// A gateway beside this one dies in the middle of a call.
    async fn fall_silent(&self, key: &str) {
        self.upstream.on("/v1/payments/slow", Reply::new(201).held());
        let config = format!("{ROUTE}lease = '1s'\n");
        let doomed = gateway(&self.upstream, &self.durable, &config).await;
        let before = self.upstream.count();
        let call = tokio::spawn(doomed.posting("/v1/payments/slow", key, "{}").try_send());
        self.upstream.begun(before + 1).await;
        doomed.kill();
        assert!(call.await.expect("no panic").is_err());
    }

    async fn retry(&self, key: &str) -> Answer {
        self.gateway.post("/v1/payments/lost", key, "{\"amount\":4200}").await
    }

    async fn record(&self, key: &str) -> Value {
        let target = format!("/api/record?scope=payment&key={key}");
        Ask::new(self.gateway.admin(), "GET", &target).send().await.json()
    }

    async fn post(&self, target: &str, body: Value) -> Value {
        let ask = Ask::new(self.gateway.admin(), "POST", target);
        let ask = ask.header("Content-Type", "application/json").body(body.to_string());
        ask.send().await.json()
    }

    /// Nothing went wrong in the page, and it asked nobody but its gateway.
    async fn assert_clean(&self) {
        assert_eq!(self.browser.complaints().await, Vec::<String>::new());
        let url = self.url();
        let requested = self.browser.requested().await;
        assert!(requested.contains(&url), "{requested:?}");
        let page =
            |address: &&String| !address.starts_with("data:") && !address.starts_with("chrome:");
        let elsewhere: Vec<_> =
            requested.iter().filter(page).filter(|address| !address.starts_with(&url)).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }
}

async fn gateway(upstream: &Upstream, durable: &Fresh, config: &str) -> Gateway {
    let launch = Launch::serve(PROGRAM).flag("--upstream", &upstream.url());
    launch.flag("--durable", &durable.url).config(config).listening().await
}

/// Where the pictures of a run are kept.
fn pictures() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots")
}
