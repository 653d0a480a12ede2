//! Words for a terminal: what came from elsewhere cannot steer it, times are told as spans.

use std::fmt::Write;
use std::time::Duration;

/// Control characters, and those that turn the direction of text or cannot be seen, as escapes.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}' | '\u{61c}');
        match c.is_control() || hidden {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// The same, and no longer than that.
pub fn shortened(text: &str, longest: usize) -> String {
    let shown = escaped(text);
    match shown.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// As a word of a shell's command line.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", escaped(text).replace('\'', r"'\''")),
    }
}

/// In its largest unit: 12s, 6m, 3h, 5d.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Columns as wide as their longest cell; the last one is left ragged. `right` are numbers.
pub fn columns(rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
    let width = |text: &String| text.chars().count();
    let count = rows.first().map_or(0, Vec::len);
    let widths: Vec<_> = (0..count)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(width).max().unwrap_or(0))
        .collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = " ".repeat(widths[column].saturating_sub(width(cell)));
            let (before, after) = if right.contains(&column) { (&*gap, "") } else { ("", &*gap) };
            let between = if column == 0 { "" } else { "  " };
            let _ = write!(line, "{between}{before}{cell}{after}");
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_shown_as_what_it_is() {
        assert_eq!(escaped("a\u{1b}[31mb\r\n\u{9b}c"), r"a\u{1b}[31mb\r\n\u{9b}c");
        assert_eq!(escaped("\u{202e}txt.exe"), r"\u{202e}txt.exe");
        assert_eq!(escaped("Zürich, 日本, a\\n"), "Zürich, 日本, a\\n");
        assert_eq!(shortened("abcdef", 3), "abc…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }

    #[test]
    fn a_word_for_a_shell_stays_one_word() {
        assert_eq!(quoted("order-7"), "order-7");
        assert_eq!(quoted("it's $(here)"), r"'it'\''s $(here)'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_span_has_one_unit() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (172_800, "2d")] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
