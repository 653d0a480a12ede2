//! What a running gateway takes from a configuration that was read again, and what it cannot.
//!
//! Routes, what they inherit, the upstreams they name and the limits change under a running
//! gateway. Listeners, tiers, pools and jobs were built at the start: a change there is named, so
//! that nobody believes it to be in force.

use super::Config;

pub struct Reload {
    /// The configuration to carry on with.
    pub config: Config,
    /// The keys whose new values wait for a restart.
    pub needs_restart: Vec<String>,
}

impl Config {
    /// What becomes of this configuration when the sources now say `read`.
    pub fn reload(&self, read: Self) -> Reload {
        let changed = self.effective.changed(&read.effective);
        let needs_restart = changed.into_iter().filter(|key| !may_change(key)).collect();
        let effective = self.effective.with(&read.effective, may_change);
        let config = Self {
            upstream: read.upstream,
            limits: read.limits,
            routes: read.routes,
            effective,
            ..self.clone()
        };
        Reload { config, needs_restart }
    }
}

fn may_change(key: &str) -> bool {
    key == "upstream" || key.starts_with("limits.")
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;

    #[test]
    fn routes_upstreams_and_limits_change_and_the_rest_is_named() {
        let running = config(
            "upstream = 'http://a'\n[admin]\ntoken = 'one'\n[fast]\nlock_ttl = '20s'\n\
             [limits]\nmax_in_flight = 5\n[[routes]]\npath = '/old'",
        );
        let read = config(
            "upstream = 'http://b'\n[admin]\ntoken = 'two'\n[fast]\nlock_ttl = '10s'\n\
             [limits]\nmax_in_flight = 6\n[[routes]]\npath = '/new'\n[[routes]]\npath = '/more'",
        );
        let Reload { config: now, needs_restart } = running.reload(read.clone());
        assert_eq!(needs_restart, ["admin.token", "fast.lock_ttl"]);
        assert_eq!(now.upstream, read.upstream);
        assert_eq!(now.limits, read.limits);
        assert_eq!(now.routes.len(), 2);
        assert_eq!(now.routes[0].upstream, read.upstream);
        assert_eq!(now.admin, running.admin);
        assert_eq!(now.fast, running.fast);

        let shown = now.effective().to_string();
        assert!(shown.contains("max_in_flight = 6"), "{shown}");
        assert!(shown.contains("lock_ttl = \"20s\""), "{shown}");
        assert!(shown.contains("path = \"/more\"") && !shown.contains("/old"), "{shown}");
    }

    #[test]
    fn the_same_configuration_needs_no_restart() {
        let running = config("upstream = 'http://a'");
        assert!(running.reload(running.clone()).needs_restart.is_empty());
    }
}
