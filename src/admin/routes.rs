//! Every path of the admin listener, in one table that the dispatcher and the API's description
//! are both held to.

use http::Method;

use super::console::{self, File};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Livez,
    Readyz,
    Health,
    Metrics,
    OpenApi,
    Overview,
    Records,
    Record,
    Resolve,
    Forget,
    Acquire,
    Complete,
    Heartbeat,
}

/// What an endpoint asks of whoever calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    Nothing,
    ToRead,
    /// Everything that changes a record, the decision API included.
    ToChange,
}

pub struct Entry {
    pub method: Method,
    pub path: &'static str,
    pub endpoint: Endpoint,
    pub asks: Asks,
}

pub enum Found {
    Entry(&'static Entry),
    /// A part of the console: for every browser, and no part of the API.
    File(&'static File),
    /// The path is known, the method is not.
    OtherMethods {
        allowed: String,
        asks: Asks,
    },
    Nothing,
}

const fn entry(method: Method, path: &'static str, endpoint: Endpoint, asks: Asks) -> Entry {
    Entry { method, path, endpoint, asks }
}

pub const TABLE: &[Entry] = &[
    entry(Method::GET, "/livez", Endpoint::Livez, Asks::Nothing),
    entry(Method::GET, "/readyz", Endpoint::Readyz, Asks::Nothing),
    entry(Method::GET, "/health", Endpoint::Health, Asks::Nothing),
    entry(Method::GET, "/metrics", Endpoint::Metrics, Asks::Nothing),
    entry(Method::GET, "/openapi.json", Endpoint::OpenApi, Asks::ToRead),
    entry(Method::GET, "/api/overview", Endpoint::Overview, Asks::ToRead),
    entry(Method::GET, "/api/records", Endpoint::Records, Asks::ToRead),
    entry(Method::GET, "/api/record", Endpoint::Record, Asks::ToRead),
    entry(Method::POST, "/api/record/resolve", Endpoint::Resolve, Asks::ToChange),
    entry(Method::DELETE, "/api/record", Endpoint::Forget, Asks::ToChange),
    entry(Method::POST, "/acquire", Endpoint::Acquire, Asks::ToChange),
    entry(Method::POST, "/complete", Endpoint::Complete, Asks::ToChange),
    entry(Method::POST, "/heartbeat", Endpoint::Heartbeat, Asks::ToChange),
];

pub fn find(method: &Method, path: &str) -> Found {
    // An answer to HEAD is that to GET without its body, which the server leaves out.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let here = || TABLE.iter().filter(|entry| entry.path == path);
    match here().find(|entry| entry.method == *method) {
        Some(entry) => Found::Entry(entry),
        None if here().next().is_none() => match console::find(path) {
            Some(file) if method == Method::GET => Found::File(file),
            Some(_) => {
                Found::OtherMethods { allowed: Method::GET.to_string(), asks: Asks::Nothing }
            }
            None => Found::Nothing,
        },
        None => {
            let methods: Vec<_> = here().map(|entry| entry.method.as_str()).collect();
            // What is there is no secret to whoever may look.
            let open = here().all(|entry| entry.asks == Asks::Nothing);
            let asks = if open { Asks::Nothing } else { Asks::ToRead };
            Found::OtherMethods { allowed: methods.join(", "), asks }
        }
    }
}
