//! A real Chromium without a window, driven by chromedriver (WebDriver over HTTP and JSON): it
//! clicks, types and looks as a person does. Every look waits until there is something to see.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::ports::Port;
use super::process::Process;
use super::servers::{Kind, needed};
use super::{Ask, eventually, scratch};

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Generous, since a loaded machine with two cores may run several browsers at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// The name that the standard gives to a reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub const TAB: &str = "\u{E004}";
pub const ENTER: &str = "\u{E007}";
pub const ESCAPE: &str = "\u{E00C}";
pub const SPACE: &str = " ";

/// One browser with one page. Dropped, it is killed with all its processes.
pub struct Browser {
    port: Port,
    session: String,
    driver: Process,
    /// Reading a log empties it.
    seen: Mutex<Vec<Value>>,
    _folder: TempDir,
}

impl Browser {
    pub async fn start() -> Self {
        let (folder, port) = (scratch::folder("browser"), Port::claim());
        let mut command = Command::new(needed(Kind::Chromium));
        command.arg(format!("--port={}", port.number())).current_dir(folder.path());
        // Whatever it keeps, it keeps here.
        for variable in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(variable, folder.path());
        }
        let driver = Process::start(command, &folder.path().join("log"));
        eventually("chromedriver is ready", START_TIMEOUT, async || {
            assert!(driver.exited().is_none(), "{}", driver.log_tail());
            Ask::new(port.addr(), "GET", "/status").try_send().await.is_ok()
        })
        .await;
        let profile = folder.path().join("profile");
        let mut browser =
            Self { port, session: String::new(), driver, seen: Mutex::default(), _folder: folder };
        let value = browser.try_command("POST", "/session", &capabilities(&profile)).await;
        let value =
            value.unwrap_or_else(|e| panic!("no browser: {e}\n{}", browser.driver.log_tail()));
        let id = value["sessionId"].as_str().expect("a session has an id");
        browser.session = format!("/session/{id}");
        browser
    }

    pub async fn open(&self, url: &str) {
        self.command("POST", "/url", json!({ "url": url })).await;
    }

    /// What the body of a function returns in the page.
    pub async fn script(&self, body: &str) -> Value {
        self.command("POST", "/execute/sync", json!({ "script": body, "args": [] })).await
    }

    /// Clicks where the element is, once it is there and nothing lies over it.
    pub async fn click(&self, css: &str) {
        self.until(css, "can be clicked", async |element| {
            self.try_command("POST", &self.of(&element, "click"), &json!({})).await.is_ok()
        })
        .await;
    }

    /// Replaces what is in a field.
    pub async fn fill(&self, css: &str, text: &str) {
        self.until(css, "can be filled", async |element| {
            let cleared = self.try_command("POST", &self.of(&element, "clear"), &json!({})).await;
            let typed = json!({ "text": text });
            cleared.is_ok()
                && (text.is_empty()
                    || self.try_command("POST", &self.of(&element, "value"), &typed).await.is_ok())
        })
        .await;
    }

    /// Presses keys one after the other, wherever the focus is.
    pub async fn press(&self, keys: &[&str]) {
        let each = keys.iter().flat_map(|key| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        });
        let keyboard =
            json!({ "type": "key", "id": "keyboard", "actions": each.collect::<Vec<_>>() });
        self.command("POST", "/actions", json!({ "actions": [keyboard] })).await;
    }

    /// The id of the element that has the focus.
    pub async fn focused(&self) -> String {
        let id = self.script("return document.activeElement?.id ?? ''").await;
        id.as_str().unwrap_or_default().to_owned()
    }

    /// What can be seen of an element, once all of these can.
    pub async fn sees(&self, css: &str, all: &[&str]) -> String {
        let mut seen = String::new();
        let what = format!("{css} shows {all:?}");
        let looking = async {
            loop {
                if let Some(text) = self.text(css).await {
                    seen = text;
                    if all.iter().all(|part| seen.contains(part)) {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, looking).await.is_err() {
            panic!("waited {PATIENCE:?} in vain: {what}; last seen: {seen:?}");
        }
        seen
    }

    /// What can be seen of an element now; None: it is not there, or hidden.
    pub async fn text(&self, css: &str) -> Option<String> {
        let css = Value::from(css);
        let body = format!(
            "const found = document.querySelector({css}); \
             return found && found.checkVisibility() ? found.innerText : null"
        );
        self.script(&body).await.as_str().map(str::to_owned)
    }

    /// Waits until it cannot be seen.
    pub async fn misses(&self, css: &str) {
        let what = format!("{css} is gone");
        eventually(&what, PATIENCE, async || self.text(css).await.is_none()).await;
    }

    /// A page of this size, as a phone shows it or as a desk does.
    pub async fn size(&self, width: u32, height: u32) {
        let mobile = width < 600;
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// `light` or `dark`.
    pub async fn prefers(&self, scheme: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            // Nothing is caught in mid-change.
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    pub async fn screenshot(&self, file: &Path) {
        let png = self.command("GET", "/screenshot", Value::Null).await;
        let png = STANDARD.decode(png.as_str().expect("an image")).expect("it is base64");
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("there is room");
        std::fs::write(file, png).expect("there is room");
    }

    /// What the page, or the browser about it, complained of so far.
    pub async fn complaints(&self) -> Vec<String> {
        let lines = self.log("browser").await;
        let bad = lines
            .iter()
            .filter(|line| matches!(line["level"].as_str(), Some("SEVERE" | "WARNING")));
        bad.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The address of every request so far.
    pub async fn requested(&self) -> Vec<String> {
        let new = self.log("performance").await;
        let mut seen = self.seen.lock().expect("nobody panicked with it");
        seen.extend(new);
        let sent = seen.iter().filter_map(|line| {
            let event: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let event = &event["message"];
            let sent = event["method"] == "Network.requestWillBeSent";
            sent.then(|| event["params"]["request"]["url"].as_str().map(str::to_owned))?
        });
        sent.collect()
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let lines = self.command("POST", "/se/log", json!({ "type": kind })).await;
        lines.as_array().cloned().unwrap_or_default()
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({ "cmd": command, "params": parameters });
        self.command("POST", "/goog/cdp/execute", body).await;
    }

    /// Finds it anew each time: the page may have drawn it anew.
    async fn until(&self, css: &str, what: &str, mut act: impl AsyncFnMut(String) -> bool) {
        let finding = json!({ "using": "css selector", "value": css });
        eventually(&format!("{css} {what}"), PATIENCE, async || {
            let path = format!("{}/element", self.session);
            let found = self.try_command("POST", &path, &finding).await.ok();
            match found.and_then(|found| found[ELEMENT].as_str().map(str::to_owned)) {
                Some(element) => act(element).await,
                None => false,
            }
        })
        .await;
    }

    fn of(&self, element: &str, what: &str) -> String {
        format!("{}/element/{element}/{what}", self.session)
    }

    async fn command(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.try_command(method, &format!("{}{path}", self.session), &body).await;
        answer.unwrap_or_else(|e| panic!("{method} {path} {body}: {e}"))
    }

    async fn try_command(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut ask = Ask::new(self.port.addr(), method, path);
        if method == "POST" {
            ask = ask.header("Content-Type", "application/json").body(body.to_string());
        }
        let answer = ask.try_send().await.map_err(|e| e.to_string())?;
        let value = answer.json()["value"].take();
        match answer.status {
            200 => Ok(value),
            _ => Err(format!("{}: {}", value["error"], value["message"])),
        }
    }
}

fn capabilities(profile: &Path) -> Value {
    let profile = format!("--user-data-dir={}", profile.display());
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-breakpad",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--lang=en-GB",
        // It ends when its driver does.
        "--remote-debugging-pipe",
        &profile,
    ];
    json!({ "capabilities": { "alwaysMatch": {
        "goog:chromeOptions": { "args": arguments },
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
    } } })
}
