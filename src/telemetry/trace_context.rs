//! W3C Trace Context: which trace a request belongs to, and who its parent is.

use std::fmt;

use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceContext {
    /// A trace that begins here; nobody has asked for it to be recorded.
    pub fn fresh() -> Self {
        Self { trace: Uuid::new_v4().as_u128(), span: fresh_span(), flags: 0 }
    }

    /// From a `traceparent`; None for one that is malformed, which is to be ignored. A version
    /// that is not known yet may have more fields behind those that are.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let text = str::from_utf8(header).ok()?;
        let (version, rest) = (text.get(..2)?, text.get(55..)?);
        let lower_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let parts = [version, text.get(3..35)?, text.get(36..52)?, text.get(53..55)?];
        let dashes = [2, 35, 52].iter().all(|at| header[*at] == b'-');
        let known = version == "00" && rest.is_empty();
        let newer =
            version != "00" && version != "ff" && (rest.is_empty() || rest.starts_with('-'));
        if !dashes || !(known || newer) || !parts.iter().all(|part| lower_hex(part)) {
            return None;
        }
        let trace = u128::from_str_radix(parts[1], 16).ok()?;
        let span = u64::from_str_radix(parts[2], 16).ok()?;
        let flags = u8::from_str_radix(parts[3], 16).ok()?;
        (trace != 0 && span != 0).then_some(Self { trace, span, flags })
    }

    /// The same trace, with a step of our own as the parent of what follows.
    pub fn child(self) -> Self {
        // Of the flags only those that are known are passed on: sampled, and random.
        Self { span: fresh_span(), flags: self.flags & 3, ..self }
    }

    pub fn of(trace: u128, span: u64, flags: u8) -> Self {
        Self { trace, span, flags }
    }

    /// The trace, the step that is the parent, and the flags.
    pub fn parts(self) -> (u128, u64, u8) {
        (self.trace, self.span, self.flags)
    }

    pub fn trace_id(self) -> impl fmt::Display {
        fmt::from_fn(move |f| write!(f, "{:032x}", self.trace))
    }
}

/// As a `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

fn fresh_span() -> u64 {
    // Half of a random UUID, without the bits that every one of them has.
    (Uuid::new_v4().as_u64_pair().0 ^ Uuid::new_v4().as_u64_pair().0.rotate_left(32)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_child_keeps_the_trace_and_the_wish_to_record_it() {
        let parent = TraceContext::parse(SENT.as_bytes()).unwrap();
        assert_eq!(parent.to_string(), SENT);
        let child = parent.child();
        assert_eq!(child.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_ne!(child.to_string(), SENT);
        assert!(child.to_string().ends_with("-01"), "{child}");
    }

    #[test]
    fn what_is_malformed_is_ignored() {
        let unknown = SENT.replace("00-4b", "cc-4b") + "-what-comes-later";
        assert!(TraceContext::parse(unknown.as_bytes()).is_some());
        let malformed = [
            "".to_owned(),
            SENT.to_uppercase(),
            SENT.replace("00-4b", "ff-4b"),
            SENT.replace('-', "_"),
            SENT.replace("00f067aa0ba902b7", "0000000000000000"),
            SENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            format!("{SENT}-more"),
            SENT.replace("00f067", "+0f067"),
            SENT.replacen('f', "é", 1),
        ];
        for header in malformed {
            assert_eq!(TraceContext::parse(header.as_bytes()), None, "{header}");
        }
    }

    #[test]
    fn a_fresh_one_is_valid() {
        let fresh = TraceContext::fresh().to_string();
        assert!(TraceContext::parse(fresh.as_bytes()).is_some(), "{fresh}");
    }
}
