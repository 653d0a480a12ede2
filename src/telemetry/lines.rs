//! Many short lines to stderr at little cost: they are gathered in memory and written together by a
//! thread of its own, so that a slow terminal or disk never holds up a request.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a line may wait for others.
const GATHER: Duration = Duration::from_millis(50);
/// What may wait for a reader that does not keep up; more is left out, and that is said.
const MOST: usize = 4 << 20;

pub struct Lines {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    left_out: u64,
    closed: bool,
}

impl Lines {
    pub fn start(mut to: impl Write + Send + 'static) -> Self {
        let shared = Arc::<Shared>::default();
        let gathered = shared.clone();
        let writer = std::thread::Builder::new().name("access-log".into()).spawn(move || {
            while let Some(text) = gathered.next() {
                // There is nobody to tell that nobody reads.
                let _ = to.write_all(&text).and_then(|()| to.flush());
            }
        });
        Self { shared, writer: Mutex::new(writer.ok()) }
    }

    /// Adds what `write` writes, which is to be whole lines.
    pub fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.shared.lock();
        if waiting.text.len() >= MOST {
            waiting.left_out += 1;
            return;
        }
        let first = waiting.text.is_empty();
        write(&mut waiting.text);
        if first {
            self.shared.changed.notify_one();
        }
    }

    /// Returns when everything that was added is written; nothing is written afterwards.
    pub fn finish(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines, and a moment longer for more of them. None: it is closed.
    fn next(&self) -> Option<Vec<u8>> {
        let idle = |waiting: &mut Waiting| waiting.text.is_empty() && !waiting.closed;
        let waiting = self.changed.wait_while(self.lock(), idle);
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let gathered = self.changed.wait_timeout_while(waiting, GATHER, |waiting| !waiting.closed);
        let mut waiting = gathered.unwrap_or_else(PoisonError::into_inner).0;
        if waiting.text.is_empty() {
            return None;
        }
        let mut text = std::mem::take(&mut waiting.text);
        let left_out = std::mem::take(&mut waiting.left_out);
        if left_out > 0 {
            let said =
                writeln!(text, "{left_out} more lines were left out: nobody read them fast enough");
            debug_assert!(said.is_ok(), "into memory");
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Sent(mpsc::Sender<Vec<u8>>);

    impl Write for Sent {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.send(text.to_vec()).unwrap();
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_together_and_none_is_lost_at_the_end() {
        let (sender, written) = mpsc::channel();
        let lines = Lines::start(Sent(sender));
        for line in ["a\n", "b\n", "c\n"] {
            lines.add(|text| text.extend_from_slice(line.as_bytes()));
        }
        drop(lines);
        assert_eq!(written.iter().collect::<Vec<_>>(), [b"a\nb\nc\n"]);
    }

    #[test]
    fn a_reader_that_does_not_keep_up_costs_lines_and_is_told_so() {
        let (sender, written) = mpsc::channel();
        let lines = Lines::start(Sent(sender));
        lines.add(|text| text.resize(MOST, b'x'));
        lines.add(|text| text.push(b'y'));
        drop(lines);
        let text = String::from_utf8(written.iter().flatten().collect()).unwrap();
        assert!(text.ends_with("x1 more lines were left out: nobody read them fast enough\n"));
    }
}
