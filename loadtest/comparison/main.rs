//! oncegate side by side with nginx and HAProxy, in one run on one machine: requests per second,
//! latency, and the processor time of the proxy per request, with the targets next to them.
//!
//!     loadtest/compare [--quick] [--only WORD]
//!
//! gets nginx, HAProxy and wrk, and runs this; `cargo bench --bench compare` does so without getting
//! anything. Everybody takes a turn in every round, so that a noisy machine disturbs all alike. The
//! ratio of processor times is what counts: requests per second also depend on what wrk, the
//! upstream and the databases leave of the machine. A wrong answer, or an upstream that was not
//! asked exactly as often as it should have been, fails the run; a missed target does not.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark runs outside the product: it asks for the time and blocks"
)]

mod bed;
mod load;
mod measure;
mod probe;
mod proxies;
mod rows;
mod table;
mod upstream;

#[path = "../median.rs"]
mod median;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use bed::Bed;
use measure::Bench;
use table::Line;

const USAGE: &str = "usage: loadtest/compare [--quick] [--only WORD]
  --quick      one short round, to see that it works
  --only WORD  the rows with WORD in them, and nginx to compare with";

struct Options {
    rounds: usize,
    seconds: u64,
    only: Option<String>,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let missing = missing();
    if !missing.is_empty() {
        eprintln!(
            "compare: there is no {}; loadtest/compare installs what is missing, or on Debian:\n\
             \x20   apt-get install --no-install-recommends {}",
            missing.join(", no "),
            missing.join(" ")
        );
        return ExitCode::FAILURE;
    }
    end_in_good_order_when_interrupted();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failures) => {
            println!("\nFAILED");
            for failure in failures {
                println!("  {failure}");
            }
            ExitCode::FAILURE
        }
    }
}

fn options() -> Option<Options> {
    let mut options = Options { rounds: 5, seconds: 3, only: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => (options.rounds, options.seconds) = (1, 1),
            "--only" => options.only = Some(arguments.next()?),
            "--bench" => {} // From cargo.
            _ => return None,
        }
    }
    Some(options)
}

fn missing() -> Vec<&'static str> {
    let there = |program: &&str| {
        let mut command = Command::new(program);
        command.arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok()
    };
    ["nginx", "haproxy", "wrk"].into_iter().filter(|program| !there(program)).collect()
}

/// nginx's workers outlive a master that is killed, and would be left behind.
fn end_in_good_order_when_interrupted() {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be built");
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let mut terminated = signal(SignalKind::terminate()).expect("signals can be awaited");
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated.recv() => {}
            }
        });
        // Ends all servers and removes their folders on the way.
        std::process::exit(130);
    });
}

fn run(options: &Options) -> Result<(), Vec<String>> {
    let began = Instant::now();
    let say = |words: &str| eprintln!("[{:>4}s] {words}", began.elapsed().as_secs());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let rows = rows::rows(options.only.as_deref());
    if rows.is_empty() {
        return Err(vec!["no row has that word in it".into()]);
    }
    let bed = Bed::start(cores).map_err(|why| vec![format!("the upstream: {why}")])?;
    let mut bench = Bench::new(bed, cores, options.seconds);
    let mut lines: Vec<Line> =
        rows.into_iter().map(|row| Line { row, rounds: Vec::new(), failure: None }).collect();

    for line in &mut lines {
        say(&format!("warming up: {}", title(line)));
        line.failure = bench.warm_up(&line.row).err();
    }
    for round in 1..=options.rounds {
        for line in lines.iter_mut().filter(|line| line.failure.is_none()) {
            let start = format!("round {round} of {}: {}", options.rounds, title(line));
            match bench.measure(&line.row) {
                Ok(measured) => {
                    let (rate, cpu) = (measured.per_second, measured.cpu_micros);
                    say(&format!("{start}: {rate:.0}/s, {cpu:.1} µs of CPU each"));
                    line.rounds.push(measured);
                }
                Err(why) => {
                    say(&format!("{start}: {why}"));
                    line.failure = Some(why);
                }
            }
        }
    }
    table::print(&lines, cores);
    let mut failures: Vec<String> = lines
        .iter()
        .filter_map(|line| Some(format!("{}: {}", title(line), line.failure.as_ref()?)))
        .collect();
    failures.extend(bench.bed.stop_all());
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

fn title(line: &Line) -> String {
    let row = &line.row;
    format!("{}: {}, {} connections", row.group, row.name, row.connections)
}
