//! The one spelling of a path, for the patterns that grants are written in and for the requests that are held to them.
//!
//! Servers and proxies disagree on what `//`, `..`, `%2f` and `\` mean. A pattern is only worth something when the
//! path that was matched is the path that is served, so whatever could be read in two ways is refused, not repaired.
//! Source: RFC 3986 sections 3.3 and 6.2.2, WHATWG URL path parsing.

/// A pattern that can match something, in normal form. The error says what is wrong with it.
pub fn check_path_pattern(pattern: &str) -> Result<(), &'static str> {
    let body = pattern.strip_suffix("/**").unwrap_or(pattern);
    if body.split('/').any(|segment| segment.contains('*') && segment != "*") {
        return Err("* stands for a whole segment, and /** for the rest at the end");
    }
    if !body.is_empty() && normal_path(body)? != body {
        return Err("letters, digits, - and _ are written without percent-encoding, escapes in capitals");
    }
    match pattern.is_empty() {
        true => Err("it is empty"),
        false => Ok(()),
    }
}

/// Percent-encoded unreserved characters decoded, escapes in capitals; refuses everything ambiguous.
pub fn normal_path(path: &str) -> Result<String, &'static str> {
    if !path.starts_with('/') {
        return Err("the path does not start with /");
    }
    let mut out = String::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => return Err("the path holds a backslash"),
            b'%' => {
                let (Some(high), Some(low)) = (rest.next().and_then(hex_digit), rest.next().and_then(hex_digit)) else {
                    return Err("the path holds a % that starts no escape");
                };
                push_escaped(&mut out, high << 4 | low)?;
            }
            _ if is_path_byte(byte) => out.push(char::from(byte)),
            _ => return Err("the path holds a character that must be percent-encoded"),
        }
    }
    if is_escaped_twice(&out) {
        return Err("the path is percent-encoded twice");
    }
    let segments = out.split('/').skip(1);
    let last = segments.clone().count().saturating_sub(1);
    for (at, segment) in segments.enumerate() {
        if segment.is_empty() && at != last {
            return Err("the path holds an empty segment (//)");
        }
        // Some servers cut off parameters (`..;x`) before they look at a segment.
        if matches!(segment.split(';').next(), Some("." | "..")) {
            return Err("the path holds a dot segment");
        }
    }
    Ok(out)
}

fn push_escaped(out: &mut String, byte: u8) -> Result<(), &'static str> {
    match byte {
        b'/' | b'\\' => Err("the path holds an encoded slash"),
        b'.' => Err("the path holds an encoded dot"),
        0..0x20 | 0x7f => Err("the path holds an encoded control character"),
        _ if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') => {
            out.push(char::from(byte));
            Ok(())
        }
        _ => {
            out.push_str(&format!("%{byte:02X}"));
            Ok(())
        }
    }
}

/// `%252e` is `.` to a server that decodes twice; a lone `%25`, as in `100%25`, is harmless.
fn is_escaped_twice(path: &str) -> bool {
    path.match_indices("%25").any(|(at, _)| {
        let after = path.as_bytes().get(at + 3..at + 5);
        after.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// `pchar` and `/` of RFC 3986, without `%`.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}
