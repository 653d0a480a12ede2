//! The table: medians over the rounds, ratios to nginx in the same round, targets.

use std::time::Duration;

use crate::measure::Measured;
use crate::median::median;
use crate::rows::{Row, Target};

/// A row with what was measured in each round, or why it was not.
pub struct Line {
    pub row: Row,
    pub rounds: Vec<Measured>,
    pub failure: Option<String>,
}

pub fn print(lines: &[Line], cores: usize) {
    println!(
        "\n{:<32} {:>5} {:>9} {:>8} {:>8} {:>9}  {:<18} target",
        "", "conns", "req/s", "p50 ms", "p99 ms", "CPU µs", "× nginx's CPU"
    );
    let mut group = "";
    for line in lines {
        if line.row.group != group {
            group = line.row.group;
            println!("{group}");
        }
        println!("{}", text(line, lines));
    }
    println!(
        "\n{cores} cores for all: wrk, the proxy, the upstream, the databases. Medians over the rounds.\n\
         CPU µs: processor time of the proxy's processes per request. × nginx's CPU: the median of\n\
         the ratios within each round, and the least and the greatest; first calls are held against\n\
         nginx proxying a POST, replays against nginx answering with a constant."
    );
    for line in lines.iter().filter(|line| line.row.who.needs_servers()) {
        if let Some(cpu) = median(line.rounds.iter().map(|round| round.servers_cpu_micros)) {
            let (group, connections) = (line.row.group, line.row.connections);
            println!("MySQL and Redis used {cpu:.0} µs per request for {group}, {connections}.");
        }
    }
}

fn text(line: &Line, lines: &[Line]) -> String {
    let Line { row, rounds, failure } = line;
    let start = format!("  {:<30} {:>5}", row.name, row.connections);
    if failure.is_some() {
        return format!("{start} failed, see below");
    }
    let of = |figure: fn(&Measured) -> f64| median(rounds.iter().map(figure)).unwrap_or(f64::NAN);
    let (per_second, cpu) = (of(|round| round.per_second), of(|round| round.cpu_micros));
    let ratios = ratios(line, lines);
    let ratio = median(ratios.iter().copied());
    let ratio_text = ratio.map_or("–".into(), |ratio| {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        format!("{ratio:.2} ({least:.2}–{most:.2})")
    });
    let targets: Vec<String> = row
        .targets
        .iter()
        .map(|target| match *target {
            Target::TimesNginx(most) => {
                let met = ratio.is_some_and(|ratio| ratio <= most);
                format!("≤ {most:.2} × nginx {}", word(met))
            }
            Target::Micros(most) => format!("≤ {most:.0} µs {}", word(cpu <= most)),
            Target::PerSecond(least) => format!("≥ {least:.0}/s {}", word(per_second >= least)),
        })
        .collect();
    let millis = |figure: fn(&Measured) -> Duration| {
        median(rounds.iter().map(|round| figure(round).as_secs_f64() * 1e3)).unwrap_or(f64::NAN)
    };
    format!(
        "{start} {per_second:>9.0} {:>8.2} {:>8.2} {cpu:>9.1}  {ratio_text:<18} {}",
        millis(|round| round.p50),
        millis(|round| round.p99),
        targets.join(", ")
    )
    .trim_end()
    .to_owned()
}

fn word(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Its processor time as a multiple of nginx's, round by round.
fn ratios(line: &Line, lines: &[Line]) -> Vec<f64> {
    let nginx = lines.iter().find(|l| l.row.group == line.row.against && l.row.who.is_nginx());
    let Some(nginx) = nginx.filter(|nginx| nginx.failure.is_none()) else {
        return Vec::new();
    };
    line.rounds
        .iter()
        .zip(&nginx.rounds)
        .map(|(own, its)| own.cpu_micros / its.cpu_micros)
        .collect()
}
