//! Open files: every connection is one, and systems start programs with room for few.

use crate::config::Config;

/// Databases, the fast tier, logs, the admin listener's own connections.
const OTHERS: u64 = 256;

/// Takes as much room as the system gives, and says so when the limits promise more.
pub fn make_room(config: &Config) {
    let wanted = u64::from(config.limits.max_connections)
        + u64::from(config.connections.max)
        + u64::from(config.durable.max_connections)
        + OTHERS;
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(room) if room < wanted => tracing::warn!(
            "this process may open {room} files, but limits.max_connections and connections.max \
             may need {wanted}: raise the limit (ulimit -n, LimitNOFILE=) or lower them"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}
