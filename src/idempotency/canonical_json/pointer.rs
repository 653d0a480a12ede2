//! JSON pointers (RFC 6901): how a configuration names a place in a document.
//!
//! Parsed once, when the configuration is read, so that a mistake is found before any request.

/// Why a text is no JSON pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    #[error("a JSON pointer is empty or starts with \"/\", for example \"/order/amount\"")]
    NoLeadingSlash,
    #[error("\"~\" in a JSON pointer is written \"~0\", and \"/\" inside a name \"~1\"")]
    BadEscape,
}

/// A JSON pointer (RFC 6901), known to be well-formed. The empty one is the whole document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    text: Box<str>,
    names: Box<[Box<str>]>,
}

impl Pointer {
    pub fn parse(text: &str) -> Result<Pointer, PointerError> {
        let names = match text.strip_prefix('/') {
            Some(names) => names.split('/').map(unescape).collect::<Result<_, _>>()?,
            None if text.is_empty() => Box::default(),
            None => return Err(PointerError::NoLeadingSlash),
        };
        Ok(Pointer { text: text.into(), names })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

fn unescape(name: &str) -> Result<Box<str>, PointerError> {
    let mut plain = String::with_capacity(name.len());
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '~' => match characters.next() {
                Some('0') => '~',
                Some('1') => '/',
                _ => return Err(PointerError::BadEscape),
            },
            other => other,
        });
    }
    Ok(plain.into())
}

/// RFC 6901: digits without leading zeros. Anything else names no element.
pub(super) fn array_index(name: &str) -> Option<usize> {
    let canonical = name == "0" || !name.starts_with('0');
    let digits = name.bytes().all(|b| b.is_ascii_digit());
    if canonical && digits { name.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        Pointer::parse(text).unwrap().names().map(str::to_owned).collect()
    }

    #[test]
    fn a_pointer_is_split_at_slashes_and_its_escapes_are_resolved_once() {
        assert_eq!(names("/a/0/~1b"), ["a", "0", "/b"]);
        assert_eq!(names("/~01"), ["~1"]);
        assert_eq!(names("/"), [""]);
        assert_eq!(names("/a//"), ["a", "", ""]);
    }

    #[test]
    fn the_empty_pointer_is_the_whole_document() {
        assert_eq!(names(""), Vec::<String>::new());
    }

    #[test]
    fn a_malformed_pointer_is_refused_when_it_is_parsed() {
        assert_eq!(Pointer::parse("amount"), Err(PointerError::NoLeadingSlash));
        for text in ["/~", "/~2", "/a~", "/~/b"] {
            assert_eq!(Pointer::parse(text), Err(PointerError::BadEscape), "{text}");
        }
    }

    #[test]
    fn only_plain_decimal_digits_without_leading_zeros_are_an_array_index() {
        assert_eq!(array_index("0"), Some(0));
        assert_eq!(array_index("10"), Some(10));
        for name in ["", "-", "-1", "+1", "00", "01", "1.0", "1e0", " 1", "99999999999999999999"] {
            assert_eq!(array_index(name), None, "{name}");
        }
    }
}
