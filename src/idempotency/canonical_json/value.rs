//! A parsed JSON document that can be put in order, pointed into and written canonically.
//!
//! An own type, because `serde_json::Value` drops repeated members without a word. Strings are
//! borrowed from the body where they have no escapes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::CanonicalError;
use super::pointer::{Pointer, array_index};

pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    /// As it was sent, which a double of its size may not be.
    Integer(i64),
    Number(f64),
    Text(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
    /// Stands where an ignored value was, so that array positions stay what the client sent.
    Ignored,
}

struct ValueVisitor;

/// Borrows the name from the body where it has no escapes; a bare `Cow` would always copy.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Writes the comma before every item but the first.
#[derive(Default)]
pub(super) struct Separator(Option<u8>);

impl Separator {
    pub(super) fn write(&mut self, out: &mut Vec<u8>) {
        out.extend(self.0.replace(b','));
    }
}

impl Value<'_> {
    /// Sorts by UTF-16 code units, as RFC 8785 asks, which brings repeated members together.
    pub(super) fn sort_members(&mut self) -> Result<(), CanonicalError> {
        match self {
            Value::Array(items) => items.iter_mut().try_for_each(Value::sort_members),
            Value::Object(members) => {
                members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return Err(CanonicalError::RepeatedMember);
                }
                members.iter_mut().try_for_each(|(_, value)| value.sort_members())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn find(&mut self, pointer: &Pointer) -> Option<&mut Self> {
        pointer.names().try_fold(self, |value, name| match value {
            Value::Array(items) => items.get_mut(array_index(name)?),
            Value::Object(members) => {
                members.iter_mut().find(|(member, _)| *member == name).map(|(_, value)| value)
            }
            _ => None,
        })
    }

    /// Nothing but strings can fail, and into memory not even these do.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        match self {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Integer(integer) => write_double(*integer as f64, out),
            Value::Number(number) => write_double(*number, out),
            // serde_json escapes exactly what RFC 8785 asks for, in the same way.
            Value::Text(text) => serde_json::to_writer(&mut *out, text)?,
            Value::Array(items) => {
                out.push(b'[');
                let mut separator = Separator::default();
                for item in items.iter().filter(|item| !matches!(item, Value::Ignored)) {
                    separator.write(out);
                    item.write(out)?;
                }
                out.push(b']');
            }
            Value::Object(members) => {
                out.push(b'{');
                let mut separator = Separator::default();
                for (name, value) in members.iter().filter(|(_, v)| !matches!(v, Value::Ignored)) {
                    separator.write(out);
                    serde_json::to_writer(&mut *out, name)?;
                    out.push(b':');
                    value.write(out)?;
                }
                out.push(b'}');
            }
            Value::Ignored => {}
        }
        Ok(())
    }
}

fn write_double(number: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(ryu_js::Buffer::new().format(number).as_bytes());
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool(value))
    }

    // Integers that do not fit a double are refused by `check_numbers`.
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).map_or(Value::Number(value as f64), Value::Integer))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut object = Vec::new();
        while let Some((Name(name), value)) = members.next_entry()? {
            object.push((name, value));
        }
        Ok(Value::Object(object))
    }
}
