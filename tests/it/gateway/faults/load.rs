//! Clients that behave: each has a key, asks until it gets a final answer, and goes to the other
//! gateway when one does not answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::super::fresh_key;
use crate::support::{Answer, Ask, Gateway, Upstream};

const PAUSE: Duration = Duration::from_millis(25);
/// Longer than any lease in these tests, and a server's restart.
const PATIENCE: Duration = Duration::from_secs(60);

/// Clients at work, until they are told to stop.
pub struct Load {
    stopped: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Call>>>,
}

/// One key, and how it ended.
pub struct Call {
    pub key: String,
    /// The final answer; none when there was none in time.
    pub answer: Option<Answer>,
    /// What it was told, in order, without repetitions.
    pub told: Vec<String>,
}

impl Load {
    pub fn begin(gateways: &[Gateway], clients: usize) -> Self {
        let addresses: Vec<_> = gateways.iter().map(Gateway::addr).collect();
        let (stopped, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients = (0..clients)
            .map(|number| {
                let (addresses, stopped) = (addresses.clone(), stopped.clone());
                tokio::spawn(client(addresses, number, stopped, done.clone()))
            })
            .collect();
        Self { stopped, done, clients }
    }

    /// How many keys have their final answer.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Begins no new keys, and waits until every one has its final answer.
    pub async fn finish(self) -> Vec<Call> {
        self.stopped.store(true, Ordering::Relaxed);
        let mut calls = Vec::new();
        for client in self.clients {
            calls.extend(client.await.expect("no panic"));
        }
        calls
    }
}

async fn client(
    addresses: Vec<SocketAddr>,
    number: usize,
    stopped: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) -> Vec<Call> {
    let mut calls = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        let mut call = Call { key: fresh_key(), answer: None, told: Vec::new() };
        let began = oncegate::clock::now();
        let mut attempt = number;
        while call.answer.is_none() && began.elapsed() < PATIENCE {
            attempt += 1;
            let to = addresses[attempt % addresses.len()];
            call.ask(to).await;
        }
        done.fetch_add(1, Ordering::Relaxed);
        calls.push(call);
    }
    calls
}

impl Call {
    async fn ask(&mut self, to: SocketAddr) {
        let answer = Ask::new(to, "POST", "/pay").key(&self.key).body(&self.key).try_send().await;
        let told = match &answer {
            Ok(answer) => answer.header("Idempotency-Status").unwrap_or("nothing").to_owned(),
            Err(error) => error.kind().to_string(),
        };
        if self.told.last() != Some(&told) {
            self.told.push(told);
        }
        match answer.ok().filter(is_final) {
            None => tokio::time::sleep(PAUSE).await,
            found => self.answer = found,
        }
    }
}

/// Whether asking again would be of no use.
fn is_final(answer: &Answer) -> bool {
    let word = answer.header("Idempotency-Status").unwrap_or_default();
    matches!(word, "executed" | "replayed" | "outcome-unknown")
}

/// Nothing ran twice, every key has an end, and who was told that it ran was told the truth.
/// Returns how many have an answer, and how many are held.
#[track_caller]
pub fn judge(calls: &[Call], upstream: &Upstream) -> (usize, usize) {
    assert!(upstream.most_of_one_key() <= 1, "something ran twice");
    let executions = upstream.executions();
    let (mut answered, mut held) = (0, 0);
    for Call { key, answer, told } in calls {
        let answer = answer.as_ref().unwrap_or_else(|| panic!("{key} never ended: {told:?}"));
        match answer.status {
            201 => {
                let number = answer.json()["execution"].as_u64().expect("the upstream's answer");
                let execution = &executions[number as usize - 1];
                assert_eq!(execution.key(), Some(key.as_str()), "it is the key's own answer");
                answered += 1;
            }
            _ => held += 1,
        }
    }
    (answered, held)
}
