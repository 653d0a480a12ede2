//! Canonical JSON (RFC 8785): one byte string for every spelling of the same document, and the
//! choice of which parts of it count.
//!
//! A client that retries may print its payload again, in another order or with other blanks.
//! What two readers could understand differently is refused, never guessed: a fingerprint that
//! takes two different payments for one is worse than a 400.
//!
//! ## Why more is refused than RFC 8785 asks
//! JSON libraries disagree on a repeated member (first or last wins), and doubles cannot tell
//! 9007199254740993 from its neighbour. So repeated members are refused at any depth, and so are
//! integers beyond ±2^53, also when they are written `1e17` or `9007199254740993.0`. From 1e21 on
//! the canonical form has an exponent: such numbers are measurements, not amounts, and pass.

mod pointer;
mod value;

pub use pointer::{Pointer, PointerError};

use value::{Separator, Value};

/// The last integer up to which a double holds every integer.
const LAST_EXACT_INTEGER: u64 = 1 << 53;
/// From here on ECMAScript, and so RFC 8785, writes an exponent.
const FIRST_WITH_EXPONENT: f64 = 1e21;

/// Why a body has no canonical form. No message repeats what the body said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// Also lone surrogates, numbers beyond a double and more than 127 levels of nesting.
    #[error("the body is not acceptable JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error("the body has an object in which a member is repeated; send each member once")]
    RepeatedMember,
    #[error(
        "the body has an integer beyond 2^53, which JSON readers round; send it as a string instead"
    )]
    InexactInteger,
}

/// Which parts of a document count; by default, all of it.
///
/// Every pointer means a place in the document as it was sent: an array element that is ignored
/// closes its gap in the output, but does not renumber the others for the pointers beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these subtrees count. The output is an object from pointer to value in which an absent
    /// place has no member, so that it differs from a `null`. `Some(vec![])`: nothing counts.
    pub fields: Option<Vec<Pointer>>,
    /// Left out first, object members and array elements alike; absent places do no harm.
    pub ignore: Vec<Pointer>,
}

/// What stands at a place where a text is looked for.
#[derive(Debug, PartialEq, Eq)]
pub enum TextAt {
    /// Nothing, or `null`.
    Absent,
    Text(String),
    /// Something that is no text and has no one spelling that would do for it.
    NoText,
}

/// The canonical form of the selected parts of `body`.
pub fn canonicalize(body: &[u8], selection: &Selection) -> Result<Vec<u8>, CanonicalError> {
    let mut document = parse(body)?;
    for pointer in &selection.ignore {
        if let Some(place) = document.find(pointer) {
            *place = Value::Ignored;
        }
    }
    let mut out = Vec::with_capacity(body.len());
    match &selection.fields {
        None => document.write(&mut out)?,
        Some(fields) => write_fields(&mut document, fields, &mut out)?,
    }
    Ok(out)
}

/// The string at `pointer`, or the digits of a whole number that every reader reads as the same
/// one. A repeated member is an error as in [`canonicalize`]: a key read from one of two is not the
/// key the upstream reads. Numbers elsewhere in the body are not looked at.
pub fn text_at(body: &[u8], pointer: &Pointer) -> Result<TextAt, CanonicalError> {
    let mut document: Value<'_> = serde_json::from_slice(body)?;
    document.sort_members()?;
    Ok(match document.find(pointer) {
        None | Some(Value::Null) => TextAt::Absent,
        Some(Value::Text(text)) => TextAt::Text(std::mem::take(text).into_owned()),
        Some(Value::Integer(integer)) if is_exact_integer(*integer) => {
            TextAt::Text(integer.to_string())
        }
        // `7.0` is `7` in the canonical form, too.
        Some(Value::Number(number)) if number.fract() == 0.0 && is_exact_double(*number) => {
            TextAt::Text((*number as i64).to_string())
        }
        Some(_) => TextAt::NoText,
    })
}

fn parse(body: &[u8]) -> Result<Value<'_>, CanonicalError> {
    let mut document: Value<'_> = serde_json::from_slice(body)?;
    check_numbers(body)?;
    document.sort_members()?;
    Ok(document)
}

/// Looks at the literals, because the parser hands integers beyond 64 bits over as rounded floats.
/// `body` is known to be valid JSON: whatever starts like a number outside a string is one.
fn check_numbers(body: &[u8]) -> Result<(), CanonicalError> {
    let mut rest = body;
    while let Some(start) = rest.iter().position(|b| matches!(b, b'"' | b'-' | b'0'..=b'9')) {
        rest = &rest[start..];
        if rest[0] == b'"' {
            rest = after_string(rest);
            continue;
        }
        let in_number = |b: &u8| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|b| !in_number(b)).unwrap_or(rest.len());
        let (literal, after) = rest.split_at(length);
        if !is_exact(literal) {
            return Err(CanonicalError::InexactInteger);
        }
        rest = after;
    }
    Ok(())
}

fn after_string(quoted: &[u8]) -> &[u8] {
    let mut end = 1;
    while end < quoted.len() && quoted[end] != b'"' {
        end += if quoted[end] == b'\\' { 2 } else { 1 };
    }
    quoted.get(end + 1..).unwrap_or_default()
}

fn is_exact(literal: &[u8]) -> bool {
    let text = str::from_utf8(literal).unwrap_or_default();
    if literal.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        return text.parse().is_ok_and(|number: f64| {
            is_exact_double(number) || number.abs() >= FIRST_WITH_EXPONENT
        });
    }
    text.parse().is_ok_and(is_exact_integer)
}

fn is_exact_integer(integer: i64) -> bool {
    integer.unsigned_abs() <= LAST_EXACT_INTEGER
}

/// Of a number with a point or an exponent. 2^53 itself is not: 9007199254740993.0 rounds to it.
fn is_exact_double(number: f64) -> bool {
    number.abs() < LAST_EXACT_INTEGER as f64
}

fn write_fields(
    document: &mut Value<'_>,
    fields: &[Pointer],
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    // Sorted and without repeats, so that the order in a configuration file does not count.
    let mut fields: Vec<&Pointer> = fields.iter().collect();
    fields.sort_by(|a, b| a.as_str().encode_utf16().cmp(b.as_str().encode_utf16()));
    fields.dedup();
    out.push(b'{');
    let mut separator = Separator::default();
    for pointer in fields {
        match document.find(pointer) {
            None | Some(Value::Ignored) => {}
            Some(value) => {
                separator.write(out);
                serde_json::to_writer(&mut *out, pointer.as_str())?;
                out.push(b':');
                value.write(out)?;
            }
        }
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
