//! The plans that the databases make: nothing ever reads the table of records from end to end.

use oncegate::store::durable;

use super::raw::Raw;
use crate::bed::{Database, Fresh};

const ROWS: u32 = 5000;
/// What names its rows.
const BY_ID: [&str; 5] = ["settle", "settle_one", "renew", "release", "owners"];

pub async fn no_statement_scans_the_records(fresh: Fresh) {
    drop(fresh.open().await);
    let mut raw = Raw::connect(&fresh).await;
    if fresh.database == Database::Postgres {
        // Connections that were made then keep what they planned.
        kept_plans_scan_nothing(&mut raw, "an empty table").await;
    }
    fill(&mut raw, fresh.database).await;
    let (scheme, analyze, explain) = match fresh.database {
        Database::MySql => {
            ("mysql", "ANALYZE TABLE oncegate_records", "EXPLAIN FORMAT=TRADITIONAL")
        }
        Database::MariaDb => ("mysql", "ANALYZE TABLE oncegate_records", "EXPLAIN"),
        Database::Postgres => ("postgres", "ANALYZE", "EXPLAIN"),
        Database::Sqlite => ("sqlite", "ANALYZE", "EXPLAIN QUERY PLAN"),
    };
    raw.rows(analyze).await;
    // That a scan would be noticed.
    let all = format!("{explain} SELECT * FROM oncegate_records WHERE attempt = 7");
    assert!(scans(fresh.database, &raw.rows(all).await), "scans are not seen");
    let statements = durable::statements(scheme);
    assert!(statements.len() >= 17);
    if fresh.database == Database::Postgres {
        return kept_plans_scan_nothing(&mut raw, "a full table").await;
    }
    for (name, prepared) in statements {
        let text = with_literals(prepared, fresh.database);
        let plan = raw.rows(format!("{explain} {text}")).await;
        // SQLite has nothing to plan for a row of given values.
        assert!(!plan.is_empty() || name == "audit", "{name} has no plan");
        assert!(!scans(fresh.database, &plan), "{name} scans: {plan:#?}\n{text}");
    }
}

/// The plans that PostgreSQL keeps for prepared statements, whatever their values are.
async fn kept_plans_scan_nothing(raw: &mut Raw, of: &str) {
    // As on the tier's own connections.
    raw.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan").await;
    // That an index which is read from end to end would be noticed.
    let all = "EXPLAIN SELECT * FROM oncegate_records WHERE attempt = 7 ORDER BY id";
    let plan = raw.rows(all).await;
    assert!(scans(Database::Postgres, &plan), "not seen: {plan:#?}");
    for (name, text) in durable::statements("postgres") {
        raw.execute(format!("PREPARE p AS {text}")).await;
        let parameters = (1..).take_while(|n| text.contains(&format!("${n}"))).count();
        let nulls = match parameters {
            0 => String::new(),
            n => format!("({})", vec!["NULL"; n].join(", ")),
        };
        let plan = raw.rows(format!("EXPLAIN EXECUTE p{nulls}")).await;
        raw.execute("DEALLOCATE p").await;
        assert!(!scans(Database::Postgres, &plan), "{name} scans {of}: {plan:#?}\n{text}");
        if BY_ID.contains(&name) {
            // Not by their state: what waits to be settled may be much.
            let mentions = |index: &str| plan.iter().any(|row| row[0].1.contains(index));
            let by_id = mentions("oncegate_records_pkey") && !mentions("oncegate_due");
            assert!(by_id, "{name} looks for more than it names in {of}: {plan:#?}\n{text}");
        }
    }
}

fn scans(database: Database, plan: &[Vec<(String, String)>]) -> bool {
    let next = |n: usize| plan.get(n + 1).map_or("", |row| &row[0].1);
    plan.iter().enumerate().any(|(n, row)| {
        let of =
            |name: &str| row.iter().find(|(column, _)| column == name).map(|(_, v)| v.as_str());
        match database {
            // An INSERT is shown with type ALL and reads nothing.
            Database::MySql | Database::MariaDb => {
                let is_insert = of("select_type") == Some("INSERT");
                !is_insert
                    && matches!(of("table"), Some("oncegate_records" | "r"))
                    && matches!(of("type"), Some("ALL" | "index"))
            }
            Database::Postgres => {
                let node = row[0].1.as_str();
                let of_an_index = node.contains("Index") && node.contains(" Scan ");
                let whole =
                    of_an_index && !node.contains("audit") && !next(n).contains("Index Cond");
                whole || node.contains("Seq Scan on oncegate_records")
            }
            Database::Sqlite => {
                let detail = of("detail").unwrap_or_default();
                detail.starts_with("SCAN oncegate_records") || detail.starts_with("SCAN r")
            }
        }
    })
}

/// Mostly finished records, as in life, and some of every other state.
async fn fill(raw: &mut Raw, database: Database) {
    let rows: Vec<_> = (1..=ROWS)
        .map(|n| {
            let (state, due, expires) = match n % 40 {
                0 | 4 => ("PROCESSING", n.to_string(), "NULL".into()),
                1 => ("UNKNOWN", n.to_string(), "NULL".into()),
                2 | 3 => ("FAILED", n.to_string(), (2 * n).to_string()),
                // Far in the future: what has expired is not much at any time.
                _ => ("SUCCEEDED", "NULL".into(), format!("{}", 4_000_000_000_000_u64 + u64::from(n))),
            };
            // Some are decisions; of those and of unknown calls, jobs have something to do.
            let decision = u8::from(matches!(n % 40, 3 | 4));
            let attend = if matches!(n % 40, 1 | 3 | 4) { due.clone() } else { "NULL".into() };
            let (id, token) = (binary(n, database), binary(n + ROWS, database));
            format!(
                "({id}, 'tenant', 'payment', 'key {n}', '{state}', 1, {token}, {due}, {expires}, {decision}, {attend}, {n}, {n})"
            )
        })
        .collect();
    for rows in rows.chunks(500) {
        raw.execute(format!(
            "INSERT INTO oncegate_records (id, tenant, scope, idem_key, state, attempt, token, \
             due_at, expires_at, decision, attend_at, created_at, updated_at) VALUES {}",
            rows.join(", ")
        ))
        .await;
    }
}

/// The statement with its parameters filled in, each by what stands around it.
fn with_literals(text: &str, database: Database) -> String {
    let mut parts = text.split('?');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for (n, after) in (1..).zip(parts) {
        let before = filled.trim_end();
        let ends = |words: &[&str]| words.iter().any(|word| before.ends_with(word));
        let in_a_list = before
            .rfind('(')
            .is_some_and(|open| before[..open].ends_with(" IN ") && !before[open..].contains(')'));
        let literal = if [" > id", " < id", " <= id"].iter().any(|id| after.starts_with(id)) {
            binary(n, database)
        } else if ends(&["state ="]) {
            "'UNKNOWN'".into()
        } else if ends(&["updated_at ="]) {
            "1".into()
        } else if ends(&["idem_key ="]) {
            format!("'key {n}'")
        } else if ends(&["scope ="]) {
            "'payment'".into()
        } else if ends(&["tenant ="]) {
            "'tenant'".into()
        } else if in_a_list || ends(&["id =", "token =", "WHEN"]) {
            binary(n, database)
        } else if ends(&["LIMIT", "+", "-", ">", "decision =", "attend_at ="])
            || after.starts_with(" = 1")
        {
            "1".into()
        } else {
            "NULL".into()
        };
        filled.push_str(&literal);
        filled.push_str(after);
    }
    filled
}

fn binary(n: u32, database: Database) -> String {
    match database {
        Database::MySql | Database::MariaDb => format!("UNHEX('{n:032x}')"),
        Database::Postgres => format!("'{n:032x}'::uuid"),
        Database::Sqlite => format!("x'{n:032x}'"),
    }
}
