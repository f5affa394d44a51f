//! The outermost sections of a component, as they stand in its bytes. Knows nothing of what is in them.
//!
//! Whatever the bytes are, reading them ends: a section that claims more than there is ends it. Source: the binary format of
//! WebAssembly, sections and LEB128.

/// Magic number, version and layer.
pub const PREAMBLE_BYTES: usize = 8;

const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// One section.
pub struct Section<'w> {
    /// With its id and its size.
    pub whole: &'w [u8],
    pub kind: Kind<'w>,
}

pub enum Kind<'w> {
    /// Its name and what it holds.
    Custom(&'w str, &'w [u8]),
    Module(&'w [u8]),
    Component(&'w [u8]),
    Other,
}

/// Bytes that are no component have none.
pub fn sections(wasm: &[u8]) -> impl Iterator<Item = Section<'_>> {
    let mut rest = wasm.get(PREAMBLE_BYTES..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (id, after) = rest.split_first()?;
        let (body, after) = sized(after)?;
        let whole = &rest[..rest.len() - after.len()];
        rest = after;
        let custom = || sized(body).and_then(|(name, data)| Some(Kind::Custom(std::str::from_utf8(name).ok()?, data)));
        let kind = match *id {
            CUSTOM => custom().unwrap_or(Kind::Other),
            CORE_MODULE => Kind::Module(body),
            COMPONENT => Kind::Component(body),
            _ => Kind::Other,
        };
        Some(Section { whole, kind })
    })
}

/// A custom section, to be put behind the others.
pub fn custom(name: &str, data: &[u8]) -> Vec<u8> {
    let body = [&size(name.len())[..], name.as_bytes(), data].concat();
    [&[CUSTOM][..], &size(body.len()), &body].concat()
}

/// So many bytes as the number in front says (LEB128), and what follows them.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut size, mut at) = (0_u64, 0);
    loop {
        let byte = *bytes.get(at)?;
        size |= u64::from(byte & 0x7f) << (7 * at);
        at += 1;
        match (byte & 0x80 == 0, at) {
            (true, _) => break,
            // Sizes have 32 bits.
            (false, 5..) => return None,
            _ => {}
        }
    }
    let body = bytes.get(at..)?;
    (size <= body.len() as u64).then(|| body.split_at(size as usize))
}

fn size(mut left: usize) -> Vec<u8> {
    let mut bytes = vec![];
    loop {
        let byte = (left & 0x7f) as u8;
        left >>= 7;
        match left {
            0 => {
                bytes.push(byte);
                return bytes;
            }
            _ => bytes.push(byte | 0x80),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_whatever_its_size() {
        for bytes in [0, 1, 127, 128, 16_384, 2_100_000] {
            let data = vec![7; bytes];
            let wasm = [&b"\0asm\x0d\0\x01\0"[..], &custom("a", b"first"), &custom("name", &data)].concat();
            let found: Vec<Section> = sections(&wasm).collect();
            assert!(matches!(found[1].kind, Kind::Custom("name", held) if held == data), "{bytes}");
            assert_eq!(found.iter().map(|one| one.whole.len()).sum::<usize>(), wasm.len() - PREAMBLE_BYTES);
        }
    }

    #[test]
    fn sections_that_claim_more_than_there_is_end_the_reading() {
        for bytes in [&b""[..], b"\0asm", b"\0asm\x0d\0\x01\0\0", b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\xff\xff\x01"] {
            assert_eq!(sections(bytes).count(), 0);
        }
        assert!(sized(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_none() && sized(&[2, 1]).is_none());
        assert_eq!(sized(&[1, 7, 8]), Some((&[7][..], &[8][..])));
    }
}
