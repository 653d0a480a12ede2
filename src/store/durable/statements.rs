//! The statements that all dialects share, written once.
//!
//! `?` marks a parameter and `{now}` the database's clock. Each is a single statement that carries
//! its own conditions, so that nothing depends on what was read before.

use super::listing::Texts;
use super::sizes::{MAX_IDS, MAX_ROWS, Sizes, lasting, repeat};

/// Where the dialects differ.
pub struct Dialect {
    /// Milliseconds since 1970-01-01 UTC by the database's clock.
    pub now: &'static str,
    pub marks: Marks,
    /// Reads a text column as bytes.
    pub text: fn(&str) -> String,
    pub purge: &'static str,
    /// The state of rows that a list names, as a condition by which no index would be chosen: the
    /// list finds them, however few rows the planner believes to be in that state.
    pub state_of_named: &'static str,
}

pub enum Marks {
    Question,
    Numbered,
}

pub struct Statements {
    pub find: Sizes,
    pub owners: Sizes,
    pub release: Sizes,
    pub renew: Sizes,
    pub take_over: &'static str,
    pub remove_expired: &'static str,
    pub purge: &'static str,
    pub abandoned: &'static str,
    pub hold: &'static str,
    pub attending: &'static str,
    pub attend: &'static str,
    pub counts: &'static str,
    pub deployment: &'static str,
    pub forget: &'static str,
    pub resolve: &'static str,
    pub audit: &'static str,
    pub audit_after: &'static str,
    pub audit_newest: &'static str,
    pub listing: Texts,
}

pub const TABLE: &str = "oncegate_records";
/// Written out beside the state that is asked for: SQLite uses a partial index only where the
/// statement repeats the index's own condition.
pub const OPEN: &str = "state <> 'SUCCEEDED'";
const SAME_IDENTITY: &str = "(idem_key = ? AND scope = ? AND tenant = ?)";
/// Since when an open record has been what it is. A call is renewed while it runs, so it counts from
/// its beginning; nobody expects a decision back before its lock has run out.
const SINCE: &str = "CASE WHEN decision = 1 THEN due_at ELSE updated_at END";

impl Statements {
    pub fn new(dialect: &Dialect) -> Self {
        let columns = dialect.columns();
        let one = |text: &str| lasting(dialect.finish(text));
        let by_id = |before: &str, after: &str| {
            Sizes::up_to(MAX_IDS, |n| {
                let list = repeat("?", n, ", ");
                dialect.finish(
                    &format!("{before} WHERE id IN ({list}){after}").replace("{list}", &list),
                )
            })
        };
        Self {
            find: Sizes::up_to(MAX_ROWS, |n| {
                let any = repeat(SAME_IDENTITY, n, " OR ");
                dialect.finish(&format!("SELECT {columns} FROM {TABLE} WHERE {any}"))
            }),
            owners: by_id(
                &format!("SELECT id, token, attempt, {} FROM {TABLE}", (dialect.text)("state")),
                "",
            ),
            release: by_id(
                &format!("DELETE FROM {TABLE}"),
                " AND token IN ({list}) AND {state_of_named} IN ('PROCESSING', 'UNKNOWN')",
            ),
            renew: by_id(
                &format!(
                    "UPDATE {TABLE} SET due_at = {{now}} + ?, \
                     attend_at = CASE WHEN decision = 1 THEN {{now}} + ? ELSE attend_at END"
                ),
                " AND token IN ({list}) AND {state_of_named} = 'PROCESSING'",
            ),
            take_over: one(&format!(
                "UPDATE {TABLE} SET state = 'PROCESSING', attempt = attempt + ?, token = ?, \
                 due_at = {{now}} + ?, decision = COALESCE(?, decision), attend_at = {{now}} + ?, fingerprint = COALESCE(?, fingerprint), \
                 credential = COALESCE(?, credential), expires_at = NULL, response_status = NULL, \
                 response_headers = NULL, response_body = NULL, updated_at = {{now}} \
                 WHERE id = ? AND token = ? AND state <> 'SUCCEEDED' \
                 AND (due_at <= {{now}} OR (? = 1 AND state <> 'PROCESSING')) \
                 AND (state <> 'FAILED' OR ? = 1)"
            )),
            remove_expired: one(&format!(
                "DELETE FROM {TABLE} WHERE {SAME_IDENTITY} AND expires_at <= {{now}}"
            )),
            purge: one(dialect.purge),
            abandoned: one(&format!(
                "SELECT {columns} FROM {TABLE} WHERE state = 'PROCESSING' AND {OPEN} \
                 AND decision = ? AND due_at <= {{now}} AND {SINCE} <= {{now}} - ? \
                 ORDER BY due_at LIMIT ?"
            )),
            hold: one(&format!(
                "UPDATE {TABLE} SET state = 'UNKNOWN', attend_at = COALESCE(?, attend_at), \
                 expires_at = {{now}} + ?, last_error = ?, last_error_at = {{now}}, \
                 updated_at = {{now}} \
                 WHERE id = ? AND token = ? AND state = 'PROCESSING' AND due_at <= {{now}}"
            )),
            attending: one(&format!(
                "SELECT {columns} FROM {TABLE} WHERE decision = ? AND attend_at <= {{now}} \
                 ORDER BY attend_at LIMIT ?"
            )),
            attend: one(&format!(
                "UPDATE {TABLE} SET attend_at = ? WHERE id = ? AND token = ? AND attend_at = ?"
            )),
            counts: one(&format!(
                "SELECT COUNT(*) AS processing, \
                 COUNT(CASE WHEN due_at <= {{now}} AND {SINCE} <= {{now}} - ? THEN 1 END) \
                 AS stuck, \
                 (SELECT COUNT(*) FROM {TABLE} WHERE state = 'UNKNOWN' AND {OPEN} \
                 AND decision = 0) AS unknown, \
                 {{now}} - MIN(CASE WHEN decision = 0 OR due_at <= {{now}} THEN {SINCE} END) \
                 AS oldest_millis \
                 FROM {TABLE} WHERE state = 'PROCESSING' AND {OPEN}"
            )),
            deployment: one(&format!("SELECT {} FROM oncegate_deployment", (dialect.text)("name"))),
            forget: one(&format!(
                "DELETE FROM {TABLE} WHERE id = ? \
                 AND NOT (state = 'PROCESSING' AND due_at > {{now}})"
            )),
            resolve: one(&format!(
                "UPDATE {TABLE} SET state = ?, attempt = attempt + 1, token = ?, \
                 due_at = {{now}} + ?, expires_at = {{now}} + ?, \
                 attend_at = CASE WHEN decision = 1 THEN {{now}} + ? END, response_status = ?, \
                 response_headers = ?, response_body = ?, result_ref = ?, \
                 last_error = COALESCE(?, last_error), \
                 last_error_at = COALESCE({{now}} + ?, last_error_at), updated_at = {{now}} \
                 WHERE id = ? AND token = ? AND state <> 'SUCCEEDED' \
                 AND NOT (state = 'PROCESSING' AND due_at > {{now}})"
            )),
            audit: one("INSERT INTO oncegate_audit \
                 (at, actor, action, idem_key, scope, tenant, note) \
                 VALUES ({now}, ?, ?, ?, ?, ?, ?)"),
            audit_after: one(&format!("{} WHERE id > ? ORDER BY id LIMIT 1000", dialect.audit())),
            audit_newest: one(&format!("{} ORDER BY id DESC LIMIT 1", dialect.audit())),
            listing: Texts::new(dialect),
        }
    }
}

impl Statements {
    /// Each by its name, in the size of four rows where it has sizes.
    pub fn named(&self) -> Vec<(&'static str, &'static str)> {
        let mut all = vec![
            ("find", self.find.exactly(4)),
            ("owners", self.owners.exactly(4)),
            ("release", self.release.exactly(4)),
            ("renew", self.renew.exactly(4)),
            ("take_over", self.take_over),
            ("remove_expired", self.remove_expired),
            ("purge", self.purge),
            ("abandoned", self.abandoned),
            ("hold", self.hold),
            ("attending", self.attending),
            ("attend", self.attend),
            ("counts", self.counts),
            ("deployment", self.deployment),
            ("forget", self.forget),
            ("resolve", self.resolve),
            ("audit", self.audit),
            ("audit_after", self.audit_after),
            ("audit_newest", self.audit_newest),
        ];
        all.extend(self.listing.named());
        all
    }
}

impl Dialect {
    /// Fills in the clock and numbers the parameters where the dialect wants it.
    pub fn finish(&self, text: &str) -> String {
        let text = text.replace("{now}", self.now).replace("{state_of_named}", self.state_of_named);
        match self.marks {
            Marks::Question => text,
            Marks::Numbered => {
                let mut parts = text.split('?');
                let mut numbered = parts.next().unwrap_or_default().to_owned();
                for (index, part) in parts.enumerate() {
                    numbered.push_str(&format!("${}", index + 1));
                    numbered.push_str(part);
                }
                numbered
            }
        }
    }

    pub fn columns(&self) -> String {
        let text = ["tenant", "scope", "idem_key", "state", "result_ref", "last_error"];
        format!(
            "id, fingerprint, credential, attempt, token, due_at, expires_at, response_status, \
             response_headers, response_body, last_error_at, decision, attend_at, created_at, updated_at, {}, \
             {{now}} AS db_now",
            text.map(self.text).join(", ")
        )
    }

    pub fn audit(&self) -> String {
        let text = ["actor", "action", "idem_key", "scope", "tenant", "note"];
        format!("SELECT id, at, {} FROM oncegate_audit", text.map(self.text).join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_from_left_to_right() {
        let dialect = Dialect {
            now: "now()",
            marks: Marks::Numbered,
            text: str::to_owned,
            purge: "",
            state_of_named: "state",
        };
        assert_eq!(dialect.finish("a = ? AND b = {now} + ?"), "a = $1 AND b = now() + $2");
    }
}
