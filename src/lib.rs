//! oncegate runs an operation **at most once per idempotency key** and gives its stored answer to
//! every retry, whatever crashes.
//!
//! # The guarantee
//! What may have run is never run again unless the operator said, for that kind of operation, that
//! it may. Two tiers keep it. The **durable** tier (MySQL, PostgreSQL, SQLite) admits an execution
//! by a unique constraint and fences every later write by the token of its attempt. The **fast**
//! tier (Redis, memory) only ever rejects or replays: losing it costs a 409 or a slower answer,
//! never a second execution.
//!
//! # The layers
//! Dependencies point down only; a test holds the folder tree to it.
//! ```text
//! cli            serve  demo  check  migrate
//! lifecycle      signals
//! app            config → tiers → engine → listeners
//! gateway        identify → acquire → forward → record → reply
//! decision  admin  jobs                                  answers, records, recovery
//! http           the server of every listener; bodies, headers, problem documents
//! config         flags, variables, file → one validated value, or every mistake
//! engine         acquire → run → complete; duplicates, heartbeats, operators
//! store          tiered: the one place that knows both tiers
//!   durable        claims, fenced writes, group commit     mysql  postgres  sqlite
//!   fast           locks, finished answers, pushes         redis  memory
//! idempotency    pure: what a request is, what a record says, what follows
//! telemetry  clock
//! ```
//!
//! # Inside a service
//! ```no_run
//! use oncegate::engine::{Engine, Outcome, Request};
//! use oncegate::idempotency::key::KeyRules;
//! use oncegate::idempotency::{Fingerprint, Identity, Key, Scope, Tenant};
//! use oncegate::store::{Tiered, durable, fast};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let durable = durable::open("mysql://oncegate@db/oncegate", &Default::default())?;
//! durable.migrate().await?;
//! let fast = fast::open_for("redis://cache:6379", &durable.deployment().await?)?;
//! let engine = Engine::new(Tiered::new(durable, fast, Default::default()));
//!
//! let key = Key::new("order-1042", &KeyRules::default())?;
//! let identity = Identity::new(Tenant::from_text("acme"), Scope::new("charge")?, key);
//! let request = Request::new(identity).fingerprint(Fingerprint::of_value(&("EUR", 4200))?);
//! let outcome = engine.execute(request, || async { charge_the_card().await }).await?;
//! match outcome {
//!     Outcome::Executed(id) => println!("charged now: {id}"),
//!     Outcome::Replayed(id) => println!("had been charged before: {id}"),
//!     Outcome::InProgress => println!("is being charged right now"),
//! }
//! # Ok(()) }
//! # async fn charge_the_card() -> Result<String, std::io::Error> { Ok("ch_1".into()) }
//! ```

pub mod admin;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod decision;
pub mod engine;
pub mod gateway;
pub mod http;
pub mod idempotency;
pub mod jobs;
pub mod lifecycle;
pub mod store;
pub mod telemetry;
