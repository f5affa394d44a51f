//! W3C Trace Context: the id that ties a caller's error to our logs, rows and spans.
//!
//! Source: W3C Trace Context Level 2, `traceparent` = `00-<32 hex>-<16 hex>-<2 hex>`.

use rand::RngExt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// 16 bytes, shown as 32 lower-case hex digits; never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

impl TraceId {
    pub fn random() -> Self {
        TraceId(rand::rng().random::<[u8; 16]>())
    }

    pub fn parse(hex_digits: &str) -> Option<Self> {
        let mut bytes = [0u8; 16];
        if hex_digits.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        hex::decode_to_slice(hex_digits, &mut bytes).ok()?;
        (bytes != [0; 16]).then_some(TraceId(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}
impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for TraceId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        TraceId::parse(&text).ok_or_else(|| serde::de::Error::custom("not a trace id"))
    }
}

/// Where a call stands in its trace: the trace, our span in it, and the caller's span if it sent one.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    pub id: TraceId,
    /// The span that this bridge opens for the call.
    pub span: [u8; 8],
    /// The caller's span, from `traceparent`.
    pub parent: Option<[u8; 8]>,
    pub sampled: bool,
}

impl Trace {
    pub fn start() -> Self {
        Trace { id: TraceId::random(), span: rand::rng().random(), parent: None, sampled: true }
    }

    /// Go on with the caller's trace; a malformed header starts a new one, as the specification asks.
    pub fn continue_from(traceparent: Option<&str>) -> Self {
        traceparent.and_then(Self::parse).unwrap_or_else(Self::start)
    }

    fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let mut version_byte = [0u8; 1];
        hex::decode_to_slice(version, &mut version_byte).ok()?;
        // Version ff is forbidden; version 00 has exactly four fields, later ones may have more.
        if version_byte[0] == 0xff || (version_byte[0] == 0 && parts.next().is_some()) {
            return None;
        }
        let mut span = [0u8; 8];
        hex::decode_to_slice(parent, &mut span).ok()?;
        let mut flag = [0u8; 1];
        hex::decode_to_slice(flags, &mut flag).ok()?;
        if span == [0; 8] {
            return None;
        }
        Some(Trace {
            id: TraceId::parse(id)?,
            span: rand::rng().random(),
            parent: Some(span),
            sampled: flag[0] & 1 == 1,
        })
    }

    /// The header for everything that this call reaches.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.id, hex::encode(self.span), u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_trace_goes_on_and_a_broken_header_starts_a_new_one() {
        let sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = Trace::continue_from(Some(sent));
        assert_eq!(trace.id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(trace.traceparent().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        for broken in [
            "",
            "00-xyz",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        ] {
            assert!(Trace::continue_from(Some(broken)).parent.is_none(), "{broken}");
        }
    }
}
