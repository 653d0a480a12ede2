//! The jobs on real servers: what goes silent is settled, what is due is called back.

mod callbacks;
mod janitor;
mod recovery;

/// Short intervals, so that tests need not wait.
const QUICK: &str = "[reconciler]\ninterval = '100ms'\nstuck_after = '0s'\nsettle_after = '0s'\n";

fn payments(lease: &str) -> String {
    format!(
        "[[routes]]\npath = '/pay/{{*rest}}'\nmethods = ['POST']\nscope = 'payment'\n\
         key = 'required'\nlease = '{lease}'\ntenant_from = 'none'\n"
    )
}
