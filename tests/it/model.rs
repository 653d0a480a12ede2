//! Random schedules of many actors on the real stores, held against a model of the promise.
//!
//! Actors claim, crash, answer late, renew and take over; leases and records expire; the fast tier
//! is flushed; an operator settles and forgets. After every step: at most one execution per attempt,
//! never two where policy says hold, a completed answer never changes, a fenced write changes
//! nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use oncegate::idempotency::decide::Asked;
use oncegate::idempotency::settle::Failure;
use oncegate::idempotency::{
    Identity, Policy, RecordId, Settlement, Snapshot, WhenFailed, WhenUnknown,
};
use oncegate::store::durable::{Audit, DurableTier, Written};
use oncegate::store::fast::Finished;
use oncegate::store::fast::memory::Memory;
use oncegate::store::tiered::{Admitted, FastSettings, Held, Look, Step};
use oncegate::store::{FastTier, Tiered, fast};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::bed::{Database, Fresh, fresh_identity};
use crate::sql::Sql;
use crate::support::Redis;
use crate::support::servers::{self, Kind, Server};

const IDENTITIES: usize = 3;
const KEEP: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug)]
enum Action {
    /// An actor asks, and runs it if admitted.
    Ask {
        identity: usize,
        look: bool,
    },
    /// The nth run that is still open ends like this; the actor need not own the record any more.
    Answer {
        run: usize,
    },
    Fail {
        run: usize,
    },
    Lose {
        run: usize,
    },
    Renew {
        run: usize,
    },
    /// The nth open run is never heard of again.
    Crash {
        run: usize,
    },
    LeaseEnds {
        identity: usize,
    },
    RecordExpires {
        identity: usize,
    },
    FlushFast,
    OperatorAnswers {
        identity: usize,
    },
    OperatorAllowsRetry {
        identity: usize,
    },
    OperatorForgets {
        identity: usize,
    },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let identity = 0..IDENTITIES;
    let run = 0..4_usize;
    let action = prop_oneof![
        8 => (identity.clone(), any::<bool>()).prop_map(|(identity, look)| Action::Ask { identity, look }),
        3 => run.clone().prop_map(|run| Action::Answer { run }),
        2 => run.clone().prop_map(|run| Action::Fail { run }),
        1 => run.clone().prop_map(|run| Action::Lose { run }),
        1 => run.clone().prop_map(|run| Action::Renew { run }),
        2 => run.prop_map(|run| Action::Crash { run }),
        3 => identity.clone().prop_map(|identity| Action::LeaseEnds { identity }),
        1 => identity.clone().prop_map(|identity| Action::RecordExpires { identity }),
        2 => Just(Action::FlushFast),
        1 => identity.clone().prop_map(|identity| Action::OperatorAnswers { identity }),
        1 => identity.clone().prop_map(|identity| Action::OperatorAllowsRetry { identity }),
        1 => identity.prop_map(|identity| Action::OperatorForgets { identity }),
    ];
    prop::collection::vec(action, 1..40)
}

/// What the promise allows for one identity.
#[derive(Default)]
struct Expected {
    /// Something may have run since the last time that running again was allowed.
    may_have_run: bool,
    /// The lease of the last run is over.
    lease_over: bool,
    /// The answer that everybody must get.
    answer: Option<Snapshot>,
}

struct Run {
    identity: usize,
    admitted: Admitted,
}

struct World {
    durable: Arc<dyn DurableTier>,
    fast: Arc<dyn FastTier>,
    redis: Option<Arc<Redis>>,
    sql: Arc<Sql>,
    identities: Vec<Identity>,
    expected: Vec<Expected>,
    open: Vec<Run>,
    attempts: HashSet<(RecordId, u32)>,
    answers: u64,
}

impl World {
    /// Even identities are held, odd ones may be retried.
    fn policy(identity: usize) -> Policy {
        Policy {
            lease: LEASE,
            ttl: KEEP,
            when_failed: WhenFailed::Retry,
            when_unknown: if identity.is_multiple_of(2) {
                WhenUnknown::Hold
            } else {
                WhenUnknown::Retry
            },
            max_attempts: u32::MAX,
            ..Policy::default()
        }
    }

    fn tiers(&self) -> Tiered {
        Tiered::new(self.durable.clone(), Some(self.fast.clone()), FastSettings::default())
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Ask { identity, look } => {
                let look = if look { Look::FastFirst } else { Look::DurableOnly };
                self.ask(identity, look).await;
            }
            Action::Answer { run } => {
                if let Some(run) = self.take(run) {
                    let answer = self.new_answer();
                    let settlement = Settlement::Succeed {
                        answer: answer.clone(),
                        result_ref: None,
                        keep: KEEP,
                    };
                    if self.settle(&run, settlement).await == Written::Applied {
                        let expected = &mut self.expected[run.identity];
                        assert!(expected.answer.is_none(), "an answer was overwritten");
                        expected.answer = Some(answer);
                    }
                }
            }
            Action::Fail { run } => {
                if let Some(run) = self.take(run) {
                    let settlement = Settlement::Fail {
                        then: Failure::ExecuteAgain { after: Duration::ZERO },
                        error: "declined".into(),
                        keep: KEEP,
                    };
                    if self.settle(&run, settlement).await == Written::Applied {
                        self.expected[run.identity].may_have_run = false;
                    }
                }
            }
            Action::Lose { run } => {
                if let Some(run) = self.take(run) {
                    let settlement = Settlement::Hold {
                        why: "no answer".into(),
                        retry_in: Duration::ZERO,
                        probe_in: Duration::ZERO,
                    };
                    if self.settle(&run, settlement).await == Written::Applied {
                        self.expected[run.identity].lease_over = true;
                    }
                }
            }
            Action::Renew { run } => {
                if let Some(Run { identity, admitted }) = self.open.get(run) {
                    let digest = *self.identities[*identity].digest();
                    let lease = [(admitted.fence, digest)];
                    let (before, identity) = (self.find(*identity).await, *identity);
                    let lost = self.tiers().renew(&lease, LEASE).await.expect("it answers");
                    let processing =
                        before.as_ref().is_some_and(|found| found.state.as_str() == "PROCESSING");
                    if lost.is_empty() && processing {
                        self.expected[identity].lease_over = false;
                    } else {
                        assert_eq!(before, self.find(identity).await, "a lost lease was renewed");
                    }
                }
            }
            Action::Crash { run } => drop(self.take(run)),
            Action::LeaseEnds { identity } => {
                self.sql
                    .execute(
                        "UPDATE oncegate_records SET due_at = 1 \
                         WHERE state IN ('PROCESSING', 'UNKNOWN') AND idem_key = ?",
                        self.identities[identity].key().as_str(),
                    )
                    .await;
                self.expected[identity].lease_over = true;
            }
            Action::RecordExpires { identity } => {
                let expired = self
                    .sql
                    .execute(
                        "UPDATE oncegate_records SET expires_at = 1 \
                         WHERE state IN ('SUCCEEDED', 'FAILED') AND idem_key = ?",
                        self.identities[identity].key().as_str(),
                    )
                    .await;
                if expired > 0 {
                    // In the fast tier it would have expired by itself.
                    self.flush_fast().await;
                    self.expected[identity] = Expected::default();
                }
            }
            Action::FlushFast => self.flush_fast().await,
            Action::OperatorAnswers { identity } => {
                let answer = self.new_answer();
                let settlement =
                    Settlement::Succeed { answer: answer.clone(), result_ref: None, keep: KEEP };
                if self.operate(identity, settlement).await {
                    self.expected[identity].answer = Some(answer);
                    self.expected[identity].may_have_run = true;
                }
            }
            Action::OperatorAllowsRetry { identity } => {
                let settlement = Settlement::Fail {
                    then: Failure::ExecuteAgain { after: Duration::ZERO },
                    error: "allowed".into(),
                    keep: KEEP,
                };
                if self.operate(identity, settlement).await {
                    self.expected[identity].may_have_run = false;
                }
            }
            Action::OperatorForgets { identity } => {
                let audit = Audit { actor: "ops".into(), action: "forget", note: String::new() };
                let identity_ = self.identities[identity].clone();
                if self.tiers().forget(&identity_, audit).await.expect("it answers") {
                    self.expected[identity] = Expected::default();
                }
            }
        }
    }

    async fn ask(&mut self, identity: usize, look: Look) {
        let policy = Self::policy(identity);
        let asked = Asked::default();
        let step = self.tiers().step(&self.identities[identity], &asked, &policy, look).await;
        let expected = &mut self.expected[identity];
        match step.expect("the tiers answer") {
            Step::Admitted(admitted) => {
                assert!(
                    self.attempts.insert((admitted.fence.id, admitted.attempt)),
                    "attempt {} ran twice",
                    admitted.attempt
                );
                assert!(expected.answer.is_none(), "it ran again though it had its answer");
                let allowed = !expected.may_have_run
                    || (policy.when_unknown == WhenUnknown::Retry && expected.lease_over);
                assert!(allowed, "it ran again though it may have run");
                expected.may_have_run = true;
                expected.lease_over = false;
                self.open.push(Run { identity, admitted });
            }
            Step::Replay(held, _) => {
                assert_eq!(Some(held.finished.answer), expected.answer, "another answer");
            }
            Step::Busy => assert!(look == Look::FastFirst || !expected.lease_over),
            Step::Refuse(refusal) => {
                assert!(expected.answer.is_none(), "{refusal:?} though it has its answer");
            }
        }
    }

    fn take(&mut self, run: usize) -> Option<Run> {
        (run < self.open.len()).then(|| self.open.remove(run))
    }

    async fn settle(&self, run: &Run, settlement: Settlement) -> Written {
        let before = self.find(run.identity).await;
        let (tiers, began) = (self.tiers(), oncegate::clock::now());
        let written = tiers.settle(run.admitted.fence, &settlement).await.expect("it answers");
        if written == Written::Fenced {
            assert_eq!(before, self.find(run.identity).await, "a fenced write changed something");
        } else {
            let owner = before.expect("it was there").fence();
            assert_eq!(owner, run.admitted.fence, "a write of an old attempt counted");
        }
        let held = match settlement {
            Settlement::Succeed { answer, keep, .. } if written == Written::Applied => {
                let finished = Finished { fingerprint: None, credential: None, answer };
                Some(Held::since(began, keep, finished))
            }
            _ => None,
        };
        let digest = self.identities[run.identity].digest();
        tiers.publish(digest, run.admitted.fence.token, held).await;
        written
    }

    async fn operate(&self, identity: usize, settlement: Settlement) -> bool {
        let before = self.find(identity).await;
        let expected = &self.expected[identity];
        let audit = Audit { actor: "ops".into(), action: "resolve", note: String::new() };
        let resolved = self.tiers().resolve(&self.identities[identity], settlement, audit).await;
        if !resolved.expect("it answers") {
            assert_eq!(before, self.find(identity).await, "a refused resolution changed something");
            return false;
        }
        assert!(expected.answer.is_none(), "an operator overwrote an answer");
        let running = before.is_some_and(|record| record.state.as_str() == "PROCESSING");
        assert!(!running || expected.lease_over, "an operator ended a running call");
        true
    }

    async fn find(&self, identity: usize) -> Option<oncegate::idempotency::Record> {
        let found = self.durable.find(&self.identities[identity]).await.expect("it answers");
        found.map(|found| found.record)
    }

    async fn flush_fast(&mut self) {
        match &self.redis {
            Some(redis) => redis.flush(),
            None => self.fast = Arc::new(Memory::default()),
        }
    }

    fn new_answer(&mut self) -> Snapshot {
        self.answers += 1;
        Snapshot::of_value(self.answers.to_string().into_bytes())
    }
}

/// The stores are opened once; every schedule has identities of its own.
fn hold_against_the_model(database: Database, redis: Option<Arc<Redis>>) {
    let Some(fresh) = database.fresh() else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let (durable, fast, sql) = runtime.block_on(open(&fresh, redis.as_deref()));
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    let outcome = runner.run(&actions(), |schedule| {
        let mut world = World {
            durable: durable.clone(),
            fast: fast.clone(),
            redis: redis.clone(),
            sql: sql.clone(),
            identities: (0..IDENTITIES).map(|_| fresh_identity()).collect(),
            expected: (0..IDENTITIES).map(|_| Expected::default()).collect(),
            open: Vec::new(),
            attempts: HashSet::new(),
            answers: 0,
        };
        runtime.block_on(async {
            for action in schedule {
                world.act(action).await;
            }
        });
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

async fn open(
    fresh: &Fresh,
    redis: Option<&Redis>,
) -> (Arc<dyn DurableTier>, Arc<dyn FastTier>, Arc<Sql>) {
    let durable = fresh.open().await;
    let fast = match redis {
        Some(redis) => fast::open(&redis.url()).expect("a fast tier").expect("there is one"),
        None => Arc::new(Memory::default()),
    };
    (durable, fast, Arc::new(Sql::connect(&fresh.url).await))
}

fn private_redis() -> Option<Arc<Redis>> {
    servers::require(Kind::Redis).then(|| Arc::new(Redis::start()))
}

#[test]
fn mysql_and_redis_keep_the_promise() {
    let Some(redis) = private_redis() else { return };
    hold_against_the_model(Database::MySql, Some(redis));
}

#[test]
fn mariadb_and_redis_keep_the_promise() {
    let Some(redis) = private_redis() else { return };
    hold_against_the_model(Database::MariaDb, Some(redis));
}

#[test]
fn postgres_and_redis_keep_the_promise() {
    let Some(redis) = private_redis() else { return };
    hold_against_the_model(Database::Postgres, Some(redis));
}

#[test]
fn sqlite_and_memory_keep_the_promise() {
    hold_against_the_model(Database::Sqlite, None);
}
