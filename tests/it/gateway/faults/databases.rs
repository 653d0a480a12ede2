//! MySQL killed, frozen, cut off: nothing runs unrecorded, no answer is lost.

use super::super::{Retry, SOON, assert_executed, assert_problem, assert_replayed, fresh_key};
use super::load::{Load, judge};
use super::{Own, own};
use crate::support::{Behaviour, Reply, Server, eventually};

/// The database goes away while a call runs and comes back after the upstream has answered.
async fn an_answer_survives(away: impl AsyncFnOnce(&Own), back: impl AsyncFnOnce(&Own)) {
    let Some(own) = own("").await else { return };
    let [one, other] = &own.gateways;
    own.upstream.on("/pay/held", Reply::new(201).body("paid").held());
    let key = fresh_key();
    let call = tokio::spawn(one.posting("/pay/held", &key, "{}").send());
    own.upstream.begun(1).await;
    away(&own).await;
    let unrecorded = fresh_key();
    for gateway in [one, other] {
        let refused = gateway.post("/pay", &unrecorded, "{}").await;
        assert_problem(&refused, 503, "store-unavailable", Retry::After);
    }
    assert_eq!(own.upstream.count(), 1, "nothing runs that is not recorded");
    own.upstream.let_go();
    tokio::time::sleep(super::super::A_MOMENT).await;
    assert!(!call.is_finished(), "the client gets it when it is stored");
    back(&own).await;
    let first = tokio::time::timeout(SOON, call).await.expect("it is stored once it can be");
    let first = first.expect("no panic");
    assert_executed(&first, 201);
    eventually("new calls run again", SOON, async || {
        other.post("/pay", &unrecorded, "{}").await.status == 201
    })
    .await;
    for gateway in [one, other] {
        assert_replayed(&gateway.post("/pay/held", &key, "{}").await, &first);
    }
    assert_eq!((own.upstream.count_of(&key), own.upstream.count_of(&unrecorded)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_killed_and_comes_back() {
    an_answer_survives(async |own| own.mysql.kill(), async |own| own.mysql.restart()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_hangs() {
    an_answer_survives(async |own| own.mysql.freeze(), async |own| own.mysql.thaw()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_cut_off() {
    an_answer_survives(async |own| own.mysql_proxy.cut(), async |own| own.mysql_proxy.heal()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_killed_again_and_again_under_load() {
    let Some(own) = own("lease = '20s'").await else { return };
    own.upstream.on("/pay", Behaviour::by(Reply::numbered));
    let load = Load::begin(&own.gateways, 8);
    for _ in 0..3 {
        let before = load.done();
        eventually("some more are done", SOON, async || load.done() >= before + 20).await;
        own.mysql.kill();
        own.mysql.restart();
    }
    let before = load.done();
    eventually("it has recovered", SOON, async || load.done() >= before + 20).await;
    let calls = load.finish().await;
    let (answered, held) = judge(&calls, &own.upstream);
    assert!(answered >= 80, "{answered} answered, {held} held");
}
