//! What a component says about its functions: the comments of its WIT, in the custom section `package-docs`, where the
//! toolchain left it there. Not trusted: what is in it is checked like any tool's description.
//!
//! Source: component model binary format (sections); `wit-parser`, `PackageMetadata` (the section's JSON).

use serde_json::Value;

const SECTION: &str = "package-docs";
const MAX_BYTES: usize = 1 << 20;

/// Comments by function. Empty when there are none.
pub struct Docs(Value);

impl Docs {
    pub fn of(wasm: &[u8]) -> Docs {
        let section = sections(wasm).find(|(name, _)| *name == SECTION.as_bytes()).map(|(_, data)| data);
        // The first byte is the version of what follows; both known ones read alike here.
        let json = section.filter(|data| data.len() <= MAX_BYTES).and_then(|data| match data {
            [0 | 1, json @ ..] => serde_json::from_slice(json).ok(),
            _ => None,
        });
        Docs(json.unwrap_or_default())
    }

    /// `interface`: its short name, or `None` for a function of the world itself.
    pub fn function(&self, interface: Option<&str>, function: &str) -> Option<String> {
        let within = |owner: &Value| {
            let lists = ["func_exports", "funcs"].into_iter().filter_map(|list| owner.get(list)?.get(function));
            // An older version of the section has the text alone.
            let text = |entry: &Value| entry.as_str().or_else(|| entry.get("docs")?.as_str()).map(str::to_owned);
            lists.into_iter().find_map(text)
        };
        let text = match interface {
            Some(interface) => within(self.0.get("interfaces")?.get(interface)?),
            None => self.0.get("worlds")?.as_object()?.values().find_map(within),
        }?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
    }
}

/// The custom sections at the top of a component: name and data. Ends at the first byte that makes no sense.
fn sections(wasm: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = wasm.get(8..).unwrap_or_default();
    let section = move || {
        let (id, after) = rest.split_first()?;
        let (size, after) = number(after)?;
        let (body, after) = after.split_at_checked(size)?;
        rest = after;
        Some((*id, body))
    };
    std::iter::from_fn(section).filter_map(|(id, body)| {
        let (length, body) = if id == 0 { number(body)? } else { return None };
        body.split_at_checked(length)
    })
}

/// LEB128, 32 bits.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(section: &[u8]) -> Vec<u8> {
        let mut body = vec![SECTION.len() as u8];
        body.extend_from_slice(SECTION.as_bytes());
        body.extend_from_slice(section);
        let mut wasm = b"\0asm\x0d\0\x01\0".to_vec();
        // Another section before it.
        wasm.extend_from_slice(&[7, 1, 0, 0, body.len() as u8 | 0x80, (body.len() >> 7) as u8]);
        wasm.extend_from_slice(&body);
        wasm
    }

    #[test]
    fn comments_are_found_by_interface_and_function() {
        let json = br#"{"worlds":{"calc":{"func_exports":{"greet":{"docs":"Says\nhello."}}}},"interfaces":{"math":{"funcs":{"add":"Adds."}}}}"#;
        let docs = Docs::of(&component(&[&[1], &json[..]].concat()));
        assert_eq!(docs.function(None, "greet").as_deref(), Some("Says hello."));
        assert_eq!(docs.function(Some("math"), "add").as_deref(), Some("Adds."));
        assert_eq!(docs.function(Some("math"), "sub"), None);
        assert_eq!(docs.function(Some("other"), "add"), None);
    }

    #[test]
    fn what_is_no_such_section_says_nothing() {
        for section in [&b""[..], b"\x07{}", b"\x01{", b"\x01[]"] {
            assert_eq!(Docs::of(&component(section)).function(None, "greet"), None);
        }
        for wasm in [&b""[..], b"\0asm", b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\xff\xff", b"\0asm\x0d\0\x01\0\0\x7f"] {
            assert_eq!(Docs::of(wasm).function(None, "greet"), None);
        }
    }
}
