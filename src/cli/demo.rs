//! The promise in half a minute: a payment, its retries, a reused key, a burst, a crash.
//!
//! Everything is real but the bank: the engine runs on the embedded tiers, and the bank counts how
//! often it was really asked to charge.

use std::error::Error;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::engine::{Engine, ExecuteError, Outcome, Request};
use crate::idempotency::key::KeyRules;
use crate::idempotency::{Fingerprint, Identity, Key, Scope, Tenant};
use crate::store::{Tiered, durable, fast};

const BURST: usize = 100;

type Failure = Box<dyn Error + Send + Sync>;

/// A payment API that takes a moment and remembers every charge.
#[derive(Clone, Default)]
struct Bank(Arc<AtomicU32>);

impl Bank {
    async fn charge(self, cents: u32) -> Result<String, String> {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let charge = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        match cents {
            0 => panic!("the connection broke off"),
            _ => Ok(format!("charge #{charge} of {}.{:02} EUR", cents / 100, cents % 100)),
        }
    }

    fn charges(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

pub async fn run() -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("oncegate-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let shown = show(&format!("sqlite://{}", folder.join("records.db").display())).await;
    std::fs::remove_dir_all(&folder)?;
    shown
}

async fn show(durable_url: &str) -> Result<(), Failure> {
    let durable = durable::open(durable_url, &Default::default())?;
    durable.migrate().await?;
    let engine = Engine::new(Tiered::new(durable, fast::open("memory:")?, Default::default()));
    let bank = Bank::default();
    let screen = Screen::new();

    screen.title("oncegate: an operation runs at most once per idempotency key");
    screen.step("A client pays 42.00 EUR with the key order-1042.");
    let answer = pay(&engine, &bank, "order-1042", 4200, Duration::ZERO).await;
    screen.answer(&answer, &bank);

    screen.step("The answer was lost on the way; the client retries with the same key.");
    let answer = pay(&engine, &bank, "order-1042", 4200, Duration::ZERO).await;
    screen.answer(&answer, &bank);

    screen.step("By mistake it uses the same key for another amount.");
    let answer = pay(&engine, &bank, "order-1042", 9900, Duration::ZERO).await;
    screen.answer(&answer, &bank);

    screen.step(&format!("A nervous client sends order-1043 {BURST} times at once."));
    let calls: Vec<_> = (0..BURST)
        .map(|_| {
            let (engine, bank) = (engine.clone(), bank.clone());
            tokio::spawn(async move {
                pay(&engine, &bank, "order-1043", 1500, Duration::from_secs(5)).await
            })
        })
        .collect();
    let mut executed = 0;
    for call in calls {
        executed += usize::from(call.await?.starts_with("executed"));
    }
    let answer = format!("{executed} executed, {} got its answer", BURST - executed);
    screen.answer(&answer, &bank);

    screen.step("The bank breaks off in the middle of order-1044. Was it charged? Nobody knows.");
    let answer = without_a_backtrace(pay(&engine, &bank, "order-1044", 0, Duration::ZERO)).await;
    screen.answer(&answer, &bank);

    screen.step("The client retries. What may have happened is not done again.");
    let answer = pay(&engine, &bank, "order-1044", 0, Duration::ZERO).await;
    screen.answer(&answer, &bank);

    engine.shutdown(Duration::from_secs(5)).await;
    let charges = bank.charges();
    screen.title(&format!("{} requests, 3 orders, {charges} charges", 5 + BURST));
    Ok(())
}

async fn pay(engine: &Engine, bank: &Bank, key: &str, cents: u32, wait: Duration) -> String {
    let request = match request(key, cents) {
        Ok(request) => request.wait(wait),
        Err(error) => return error.to_string(),
    };
    let bank = bank.clone();
    match engine.execute(request, move || bank.charge(cents)).await {
        Ok(Outcome::Executed(receipt)) => format!("executed: {receipt}"),
        Ok(Outcome::Replayed(receipt)) => format!("replayed: {receipt}"),
        Ok(Outcome::InProgress) => "in progress".into(),
        Err(ExecuteError::Interrupted) => "no answer: the outcome is unknown".into(),
        Err(error) => format!("refused: {error}"),
    }
}

fn request(key: &str, cents: u32) -> Result<Request, Failure> {
    let key = Key::new(key, &KeyRules::default())?;
    let identity = Identity::new(Tenant::from_text("acme"), Scope::new("payment")?, key);
    Ok(Request::new(identity).fingerprint(Fingerprint::of_value(&cents)?))
}

/// The broken connection is part of the show, not a bug to report.
async fn without_a_backtrace<T>(call: impl Future<Output = T>) -> T {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let answer = call.await;
    std::panic::set_hook(loud);
    answer
}

/// Plain lines; colours only on a terminal.
struct Screen {
    bold: &'static str,
    dim: &'static str,
    plain: &'static str,
}

impl Screen {
    fn new() -> Self {
        match std::io::stdout().is_terminal() {
            true => Self { bold: "\x1b[1m", dim: "\x1b[2m", plain: "\x1b[0m" },
            false => Self { bold: "", dim: "", plain: "" },
        }
    }

    fn title(&self, text: &str) {
        println!("\n{}{text}{}", self.bold, self.plain);
    }

    fn step(&self, text: &str) {
        println!("\n  {text}");
    }

    fn answer(&self, answer: &str, bank: &Bank) {
        println!("  → {}{answer}{}", self.bold, self.plain);
        println!("    {}the bank has charged {} time(s){}", self.dim, bank.charges(), self.plain);
    }
}
