//! Log lines on stderr, coloured only on a terminal.

use std::io::IsTerminal;

pub fn start() {
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(tracing::Level::WARN)
        .with_target(false);
    // Somebody who embeds this may have set up logs before.
    let _ = lines.try_init();
}
