//! How the show looks: plain lines, colours only on a terminal.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use http::StatusCode;
use serde_json::Value;

use super::bank::Bank;
use super::client::{Answer, Payment};

pub struct Screen {
    steps: u32,
    bold: &'static str,
    dim: &'static str,
    good: &'static str,
    bad: &'static str,
    plain: &'static str,
}

impl Screen {
    pub fn new() -> Self {
        let [bold, dim, good, bad, plain] = match std::io::stdout().is_terminal() {
            true => ["\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[0m"],
            false => [""; 5],
        };
        Self { steps: 0, bold, dim, good, bad, plain }
    }

    pub fn title(&self, text: &str) {
        println!("\n{}{text}{}", self.bold, self.plain);
    }

    pub fn about(&self, text: &str) {
        println!("{}{text}{}", self.dim, self.plain);
    }

    pub fn step(&mut self, text: &str) {
        self.steps += 1;
        println!("\n{}. {text}", self.steps);
    }

    pub fn call(&self, payment: &Payment, answer: &Answer, bank: &Bank) {
        self.request(payment);
        let colour = self.colour(answer.status);
        println!(
            "   ← {colour}{}  Idempotency-Status: {}{}  {}",
            answer.status,
            answer.idempotency,
            self.plain,
            brief(&answer.body)
        );
        self.runs(bank);
    }

    /// Many answers, counted by what they say.
    pub fn calls(&self, payment: &Payment, answers: &[Answer], bank: &Bank) {
        self.request(payment);
        let mut kinds: BTreeMap<_, (usize, &Answer)> = BTreeMap::new();
        for answer in answers {
            let kind = (answer.idempotency.as_str(), answer.status.as_u16(), &answer.body);
            kinds.entry(kind).or_insert((0, answer)).0 += 1;
        }
        for (count, answer) in kinds.values() {
            let colour = self.colour(answer.status);
            println!(
                "   ← {count:>3} × {colour}{}  Idempotency-Status: {}{}  {}",
                answer.status,
                answer.idempotency,
                self.plain,
                brief(&answer.body)
            );
        }
        self.runs(bank);
    }

    fn request(&self, payment: &Payment) {
        let Self { dim, plain, .. } = self;
        let Payment { key, .. } = payment;
        println!("   {dim}→ POST /v1/payments  Idempotency-Key: {key}  {}{plain}", payment.body());
    }

    fn runs(&self, bank: &Bank) {
        let times = match bank.runs() {
            1 => "once".to_owned(),
            runs => format!("{runs} times"),
        };
        println!("   {}the payment API has run {times}{}", self.bold, self.plain);
    }

    fn colour(&self, status: StatusCode) -> &'static str {
        if status.is_success() { self.good } else { self.bad }
    }
}

/// A problem document is as good as its title here.
fn brief(body: &str) -> String {
    let document: Option<Value> = serde_json::from_str(body).ok();
    let title = document.as_ref().and_then(|document| document["title"].as_str());
    title.map_or_else(|| body.to_owned(), |title| format!("“{title}”"))
}
