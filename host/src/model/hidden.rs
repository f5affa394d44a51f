//! Characters that a person does not see, or that move what they do see. A model reads them all the same, and a text that
//! holds them is not the text that somebody agrees to.

/// Soft hyphens, fillers, zero widths, line separators, marks that turn the direction of text, tags and selectors that can
/// carry a message of their own. Control characters are `char::is_control`'s.
pub fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e01ef}')
}

/// A question's text has lines, and some scripts (and emoji) join and part letters with two of the zero widths.
pub fn is_plain(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}') || !(c.is_control() || is_hidden(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_emoji_are_plain_and_what_hides_is_not() {
        for plain in ["two\nlines", "می\u{200c}خواهم", "👩\u{200d}🔧 ⚠\u{fe0f}", "Ünïcode"] {
            assert!(is_plain(plain), "{plain}");
        }
        for hides in
            ["a\u{202e}b", "a\u{200b}b", "a\rb", "a\u{1b}[2K", "a\u{e0041}", "a\u{e0101}", "\u{3164}", "a\u{2028}b"]
        {
            assert!(!is_plain(hides), "{hides:?}");
        }
    }
}
