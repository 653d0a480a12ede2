//! Where a page ended, as text that only this program reads.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::engine::inspect::Position;
use crate::idempotency::RecordId;

pub fn write(position: Position) -> String {
    URL_SAFE_NO_PAD.encode(match position {
        Position::Below(id) => id.0.as_bytes().to_vec(),
        Position::Behind(at, id) => [&at.as_millis().to_be_bytes(), &id.0.as_bytes()[..]].concat(),
    })
}

pub fn read(text: &str) -> Option<Position> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    match bytes.len() {
        16 => Some(Position::Below(RecordId(Uuid::from_slice(&bytes).ok()?))),
        24 => {
            let (at, id) = bytes.split_first_chunk()?;
            let at = Timestamp::from_millis(i64::from_be_bytes(*at));
            Some(Position::Behind(at, RecordId(Uuid::from_slice(id).ok()?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is_one() {
        let id = RecordId::fresh();
        for position in
            [Position::Below(id), Position::Behind(Timestamp::from_millis(1_795_007_644_250), id)]
        {
            assert_eq!(read(&write(position)), Some(position));
        }
        for text in ["", "x", "AAAA", "!", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
