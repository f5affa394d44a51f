//! Gives a module of Go memory for the WASI adapter.
//!
//! The adapter needs two pages before the Go runtime has started, so it cannot ask Go for them; and it cannot grow the
//! memory itself, because Go's heap grows on the assumption that nobody else does. So the project's support package keeps a
//! block in its static data, which begins with [`MAGIC`], and here the module gets a function that hands it out:
//! `cabi_realloc_adapter`, the name that `wit-component` looks for. It traps when the block is used up.

/// How the block begins.
const MAGIC: &[u8] = b"cyberos: memory of the WASI adapter";
/// Bytes of the block, as in `host/templates/go/cyberos/abi.go`.
const SIZE: u32 = 192 << 10;
/// What the magic and the alignment of the first piece take.
const USED: u32 = 64;

const EXPORT: &str = "cabi_realloc_adapter";

/// Sections of a module that grow by one entry, or are read.
const TYPES: u8 = 1;
const IMPORTS: u8 = 2;
const FUNCTIONS: u8 = 3;
const GLOBALS: u8 = 6;
const EXPORTS: u8 = 7;
const CODE: u8 = 10;
const DATA: u8 = 11;

/// The module with the function in it. Errors: a module that the support package is not part of, or not well formed.
pub fn give(module: &[u8]) -> Result<Vec<u8>, String> {
    let sections = sections(module)?;
    let body = |id: u8| sections.iter().find(|section| section.id == id).map(|section| section.body);
    let count = |id: u8| body(id).and_then(|body| Reader(body).number()).ok_or(format!("it has no section {id}"));
    let block = body(DATA).and_then(find_block).ok_or("the package cyberos is not part of it")?;
    let (functions, globals) = imported(body(IMPORTS).unwrap_or(&[0])).ok_or("its imports cannot be read")?;
    let (kind, global) = (count(TYPES)?, globals + count(GLOBALS)?);
    let function = functions + count(FUNCTIONS)?;

    let mut out = module[..8].to_vec();
    for section in &sections {
        let entry = match section.id {
            TYPES => Some(vec![0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f]),
            FUNCTIONS => Some(unsigned(kind)),
            GLOBALS => Some([&[0x7f, 1, 0x41][..], &signed(block + USED), &[0x0b]].concat()),
            EXPORTS => {
                Some([&unsigned(EXPORT.len() as u32)[..], EXPORT.as_bytes(), &[0], &unsigned(function)].concat())
            }
            CODE => Some(code(global, block + SIZE)),
            _ => None,
        };
        let content = match entry {
            Some(entry) => with_entry(section.body, &entry).ok_or("a section is cut short")?,
            None => section.body.to_vec(),
        };
        out.push(section.id);
        out.extend(unsigned(content.len() as u32));
        out.extend(content);
    }
    Ok(out)
}

/// `(old, old_size, align, size) -> pointer`: the next piece of the block. Growing a piece, or a block used up, traps.
fn code(next: u32, end: u32) -> Vec<u8> {
    let (next, end) = (unsigned(next), signed(end));
    let body = [
        &[1, 1, 0x7f][..],                  // one local, i32: the pointer
        &[0x20, 0, 0x04, 0x40, 0x00, 0x0b], // if old { unreachable }
        &[0x23],
        &next,
        &[0x20, 2, 0x6a, 0x41, 1, 0x6b],          // next + align - 1
        &[0x41, 0, 0x20, 2, 0x6b, 0x71, 0x22, 4], // & -align, kept
        &[0x20, 3, 0x6a, 0x24],
        &next, // next = pointer + size
        &[0x23],
        &next,
        &[0x41],
        &end,
        &[0x4b],                                  // if next > end
        &[0x04, 0x40, 0x00, 0x0b, 0x20, 4, 0x0b], // { unreachable } pointer
    ]
    .concat();
    [unsigned(body.len() as u32), body].concat()
}

struct Section<'a> {
    id: u8,
    body: &'a [u8],
}

fn sections(module: &[u8]) -> Result<Vec<Section<'_>>, String> {
    let header = module.strip_prefix(b"\0asm\x01\0\0\0").ok_or("it is not a core module")?;
    let mut reader = Reader(header);
    let mut sections = Vec::new();
    while let Some(id) = reader.byte() {
        let body = reader.number().and_then(|size| reader.take(size)).ok_or("a section is cut short")?;
        sections.push(Section { id, body });
    }
    Ok(sections)
}

/// One more entry at the end of a section that is a vector.
fn with_entry(body: &[u8], entry: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader(body);
    let count = reader.number()?;
    Some([&unsigned(count + 1)[..], reader.0, entry].concat())
}

/// How many functions and globals are imported: they come first in their index spaces.
fn imported(body: &[u8]) -> Option<(u32, u32)> {
    let mut reader = Reader(body);
    let (mut functions, mut globals) = (0, 0);
    for _ in 0..reader.number()? {
        for _ in 0..2 {
            let name = reader.number()?;
            reader.take(name)?;
        }
        match reader.byte()? {
            0 => {
                reader.number()?;
                functions += 1;
            }
            3 => {
                reader.take(2)?;
                globals += 1;
            }
            // Go imports neither memory nor tables.
            _ => return None,
        }
    }
    Some((functions, globals))
}

/// The address in memory at which the block begins.
fn find_block(body: &[u8]) -> Option<u32> {
    let mut reader = Reader(body);
    for _ in 0..reader.number()? {
        // An active segment of memory 0: `i32.const address; end`.
        if (reader.number()?, reader.byte()?) != (0, 0x41) {
            return None;
        }
        let address = reader.signed()?;
        (reader.byte()? == 0x0b).then_some(())?;
        let size = reader.number()?;
        let bytes = reader.take(size)?;
        if let Some(at) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) {
            return address.checked_add(at as u32);
        }
    }
    None
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, size: u32) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size as usize)?;
        self.0 = rest;
        Some(taken)
    }

    /// LEB128, at most 32 bits.
    fn number(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).ok();
            }
        }
        None
    }

    /// Signed LEB128, as the unsigned address that it stands for.
    fn signed(&mut self) -> Option<u32> {
        let mut value = 0i64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let sign = if byte & 0x40 != 0 { -1i64 << (shift + 7) } else { 0 };
                return Some((value | sign) as u32);
            }
        }
        None
    }
}

fn unsigned(mut value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

fn signed(value: u32) -> Vec<u8> {
    let mut value = value as i32;
    let mut bytes = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for value in [0, 1, 63, 64, 127, 128, 300, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            assert_eq!(Reader(&unsigned(value)).number(), Some(value));
            assert_eq!(Reader(&signed(value)).signed(), Some(value));
        }
    }

    #[test]
    fn what_is_not_gos_is_refused_in_words() {
        assert!(give(b"no module").unwrap_err().contains("core module"));
        assert!(give(b"\0asm\x01\0\0\0").unwrap_err().contains("package cyberos"));
        assert!(give(b"\0asm\x01\0\0\0\x0a\x09").unwrap_err().contains("cut short"));
    }
}
