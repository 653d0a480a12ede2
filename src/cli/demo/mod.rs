//! `oncegate demo`: the promise in half a minute, on a payment that must not happen twice.
//!
//! Everything is real: a small payment API, a gateway before it on the embedded tiers, and a client
//! that talks HTTP to the gateway. The API counts how often it really ran.

mod bank;
mod client;
mod screen;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use clap::Args;
use futures_util::future::join_all;

use crate::app::App;
use crate::config::{Config, Environment, Flags, Sources};
use crate::lifecycle::Signals;
use bank::Bank;
use client::{Answer, Client, Payment};
use screen::Screen;

const BURST: usize = 100;
/// The payment that the show leaves for whoever watches it.
const UNSETTLED: &str = "order-1044";
/// What a newcomer finds in every other document, where it is free.
const USUAL_PORTS: (u16, u16) = (8080, 8081);

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Args)]
pub struct Options {
    /// End after the show instead of serving on
    #[arg(long)]
    exit: bool,
}

pub async fn run(options: &Options) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("oncegate-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let shown = show(&folder, options).await;
    std::fs::remove_dir_all(&folder)?;
    shown
}

async fn show(folder: &Path, options: &Options) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let bank = Bank::open().await?;
    let app = App::start(config(folder, bank.address())?).await?;
    let played = tokio::select! {
        played = play(&app, &bank) => played,
        () = signals.stop_asked() => Ok(()),
    };
    if played.is_ok() && !options.exit {
        invite(&app);
        signals.stop_asked().await;
    }
    app.stop().await;
    played
}

async fn play(app: &App, bank: &Bank) -> Result<(), Failure> {
    let client = Client::new(app.address());
    let mut screen = Screen::new();
    let order = Payment { key: "order-1042", cents: 4200 };

    screen.title("oncegate: a payment runs at most once per idempotency key");
    screen.about(&format!(
        "client  →  gateway {}  →  payment API {}",
        app.address(),
        bank.address()
    ));

    screen.step("A client pays 42.00.");
    screen.call(&order, &client.pay(&order).await?, bank);

    screen.step("The answer was lost on its way. The client retries with the same key.");
    screen.call(&order, &client.pay(&order).await?, bank);

    screen.step("By mistake the same key is used for another amount.");
    let other = Payment { cents: 9900, ..order };
    screen.call(&other, &client.pay(&other).await?, bank);

    screen.step(&format!("A nervous client sends the next payment {BURST} times at once."));
    let burst = Payment { key: "order-1043", cents: 1500 };
    let answers = join_all((0..BURST).map(|_| client.pay(&burst))).await;
    let answers: Vec<Answer> = answers.into_iter().collect::<Result<_, _>>()?;
    screen.calls(&burst, &answers, bank);

    screen
        .step("The payment API breaks off in the middle of an answer. Was it paid? Nobody knows.");
    let broken = Payment { key: UNSETTLED, cents: bank::BREAKS_OFF };
    screen.call(&broken, &client.pay(&broken).await?, bank);

    screen.step("The client retries. What may have happened is not done again.");
    screen.call(&broken, &client.pay(&broken).await?, bank);

    let requests = 5 + BURST;
    screen.title(&format!("{requests} requests for 3 payments: the API ran {} times", bank.runs()));
    Ok(())
}

/// What to try next.
fn invite(app: &App) {
    let (front, admin) = (app.address(), app.admin_address());
    println!(
        "
The gateway goes on serving; Ctrl-C ends it. The console shows what it does, and lets you settle the
payment that nobody knows about ({UNSETTLED}):

  http://{admin}/

Try the gateway from another terminal, twice:

  curl -i http://{front}/v1/payments -H 'Idempotency-Key: mine-1' -d '{{\"amount\":700}}'

and look at what it counted:

  curl http://{admin}/metrics

To put it before your own API:

  oncegate serve --upstream http://127.0.0.1:9000"
    );
}

fn config(folder: &Path, upstream: SocketAddr) -> Result<Config, Failure> {
    let (front, admin) = match free(USUAL_PORTS.0) && free(USUAL_PORTS.1) {
        true => USUAL_PORTS,
        false => (0, 0),
    };
    let database = folder.join("records.db");
    let text = format!(
        "listen = '127.0.0.1:{front}'
         upstream = 'http://{upstream}'
         [admin]
         listen = '127.0.0.1:{admin}'
         show_bodies = true
         [durable]
         url = 'sqlite://{}'
         [logs]
         access = 'off'
         [[routes]]
         path = '/v1/payments/{{*rest}}'
         methods = ['POST']
         scope = 'payment'
         key = 'required'
         wait = '5s'",
        database.display()
    );
    // The variables of whoever tries this are not part of it.
    let (flags, environment) = (Flags::of_file("demo"), Environment::default());
    let sources =
        Sources { flags: &flags, environment: &environment, read_file: &|_| Ok(text.clone()) };
    Config::read(&sources).map_err(|mistakes| mistakes.to_string().into())
}

fn free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
