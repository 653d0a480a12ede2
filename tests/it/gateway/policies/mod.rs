//! What an operator decides for a route.

mod endings;
mod fingerprints;
mod identities;
mod modes;
mod passed_on;
mod routes;
