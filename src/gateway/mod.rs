//! The reverse proxy: what a client sends, what goes upstream, and what comes back.

pub mod upstream;
