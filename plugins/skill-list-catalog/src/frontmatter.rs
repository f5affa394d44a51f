//! One top-level text value out of YAML frontmatter, without a YAML parser: plain, quoted, folded and literal scalars.
//!
//! A whole parser would double the component, and a catalogue needs no more. What is written in a way that this does not
//! know is read as plain text or as absent; it never fails.

/// Whether the closing fence was read, or the text does not even open with one: more of the file then adds nothing.
pub fn is_complete(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let opens = head.len() < 3 || head.starts_with(b"---");
    !opens || head.windows(5).any(|w| matches!(w, b"\n---\n" | b"\n---\r" | b"\n...\n" | b"\n...\r"))
}

/// The value of `key` in the frontmatter at the top of `text`, on one line; `None` when there is none or it is empty.
pub fn value(text: &str, key: &str) -> Option<String> {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let lines: Vec<&str> = lines.take_while(|line| !matches!(line.trim_end(), "---" | "...")).collect();
    let of_key = |line: &&str| line.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')).is_some();
    let at = lines.iter().position(of_key)?;
    let first = lines[at][key.len() + 1..].trim();
    // A value goes on in lines that are indented or empty.
    let more = lines[at + 1..].iter().take_while(|line| line.is_empty() || line.starts_with([' ', '\t']));
    let more = more.map(|line| line.trim()).filter(|line| !line.is_empty());

    let is_block = first.starts_with(['>', '|']) && first[1..].chars().all(|c| matches!(c, '+' | '-' | '0'..='9'));
    let joined = if is_block {
        join(more)
    } else if first.starts_with(['"', '\'']) {
        unquote(&join(std::iter::once(first).chain(more)))
    } else {
        let whole = join(std::iter::once(first).chain(more));
        // ` #` starts a comment in a plain scalar only.
        whole.split_once(" #").map_or(whole.as_str(), |(text, _)| text).trim().to_owned()
    };
    (!joined.is_empty()).then_some(joined)
}

fn join<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut joined = String::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(line);
    }
    joined
}

/// The text between the quotes, escapes resolved. A quote that is never closed ends with the value.
fn unquote(text: &str) -> String {
    let mut chars = text.chars();
    let quote = chars.next();
    let mut plain = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        match c {
            '\\' if quote == Some('"') => match chars.next() {
                Some('n' | 't' | 'r') => plain.push(' '),
                Some(escaped) => plain.push(escaped),
                None => break,
            },
            // '' is how a single quote is written between single quotes.
            '\'' if quote == Some('\'') => match chars.next() {
                Some('\'') => plain.push('\''),
                _ => break,
            },
            '"' if quote == Some('"') => break,
            other => plain.push(other),
        }
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_however_it_is_written() {
        for (written, read) in [
            ("description: Writes a record. # a comment", "Writes a record."),
            ("description: Writes a\n  record.", "Writes a record."),
            ("description: >-\n  Writes a\n\n  record.", "Writes a record."),
            ("description: |\n\tWrites a\n\trecord.", "Writes a record."),
            ("description: 'It''s: a record # of sorts' # a comment", "It's: a record # of sorts"),
            ("description: \"Say \\\"adr\\\"\n  and go.\"", "Say \"adr\" and go."),
            ("description:\n  Writes a record.", "Writes a record."),
            ("description: >> not a block", ">> not a block"),
        ] {
            for (open, close) in
                [("---\nname: x\n", "\nmetadata:\n  description: another\n---\nbody"), ("\u{feff}---\n", "\n...\n")]
            {
                assert_eq!(
                    value(&format!("{open}{written}{close}"), "description").as_deref(),
                    Some(read),
                    "{written}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_frontmatter_has_no_value() {
        let nested = "---\nmetadata:\n  description: nested\n---\n";
        for text in [
            "",
            "description: x",
            "# Title\n---\ndescription: x\n---\n",
            "---\ndescription:\n---\n",
            "---\ndescriptions: x\n---\n",
            nested,
        ] {
            assert_eq!(value(text, "description"), None, "{text:?}");
        }
    }

    #[test]
    fn reading_stops_at_the_closing_fence() {
        assert!(!is_complete(b""));
        assert!(!is_complete(b"---\nname: x\n"));
        assert!(is_complete(b"---\nname: x\n---\nbody"));
        assert!(is_complete(b"---\r\nname: x\r\n---\r\nbody"));
        assert!(is_complete(b"# no frontmatter"));
    }
}
