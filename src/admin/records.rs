//! Looking at records: a page of them, or one with all that is known of it.

use http::{Response, StatusCode};
use serde_json::json;

use super::view::{self, Answer};
use super::{Api, cursor, no_such_record, query, store_away};
use crate::http::{Body, Problem, json};

/// `GET /api/records`. With a state that is open, what has stood longest comes first; otherwise
/// the newest record does.
pub async fn list(api: &Api, query: &str) -> Result<Response<Body>, Problem> {
    let asked = query::listing(query)?;
    let page = api.engine.records(asked).await.map_err(|error| store_away(&error))?;
    let records: Vec<_> =
        page.found.iter().map(|found| view::record(&found.record, Answer::Status)).collect();
    let next = page.next.map(cursor::write);
    // The clock that the ages of these records are told by.
    let now = page.found.first().map(|found| view::time(found.now));
    let page = json!({ "records": records, "next_cursor": next, "now": now });
    Ok(json::answer(StatusCode::OK, &page))
}

/// `GET /api/record`.
pub async fn show(api: &Api, query: &str) -> Result<Response<Body>, Problem> {
    let (identity, _) = query::one(query, false)?;
    let inspected = api.engine.inspect(&identity).await.map_err(|error| store_away(&error))?;
    let audit: Vec<_> = inspected.audit.iter().map(view::audit).collect();
    let Some(found) = inspected.found else {
        // Who forgot it is part of the answer to "where is it?".
        return Err(match audit.is_empty() {
            true => no_such_record(),
            false => no_such_record().member("audit", audit),
        });
    };
    let shown = if api.show_bodies { Answer::Body } else { Answer::Headers };
    let mut record = view::record(&found.record, shown);
    record["now"] = view::time(found.now);
    record["audit"] = audit.into();
    Ok(json::answer(StatusCode::OK, &record))
}
