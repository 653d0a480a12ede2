//! The jobs on real servers: what goes silent is settled, what is due is called back.

mod abandoned_decisions;
mod callbacks;
mod janitor;
mod recovery;

use serde_json::Value;

use crate::support::{Ask, Gateway};

/// Short intervals, so that tests need not wait.
const QUICK: &str = "[reconciler]\ninterval = '100ms'\nstuck_after = '0s'\nsettle_after = '0s'\n";

fn payments(lease: &str) -> String {
    format!(
        "[[routes]]\npath = '/pay/{{*rest}}'\nmethods = ['POST']\nscope = 'payment'\n\
         key = 'required'\nlease = '{lease}'\ntenant_from = 'none'\n"
    )
}

/// The record as operators see it; null when there is none.
async fn seen(gateway: &Gateway, scope: &str, key: &str) -> Value {
    let path = format!("/api/record?scope={scope}&key={key}");
    let answer = Ask::new(gateway.admin(), "GET", &path).send().await;
    if answer.status != 200 {
        return Value::Null;
    }
    let mut record = answer.json();
    record.as_object_mut().expect("it is one").remove("now");
    record
}
