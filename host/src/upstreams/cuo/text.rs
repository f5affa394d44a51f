//! Text as the router compares it: lower case, no diacritics, words.
//!
//! Knows Vietnamese only as Unicode does, plus đ, which has no decomposition.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Lower case without diacritics: "Kiến trúc hệ thống Đặc" becomes "kien truc he thong dac".
pub fn normalise(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.nfd()
        .filter(|c| !is_combining_mark(*c))
        .flat_map(char::to_lowercase)
        .map(|c| if c == 'đ' { 'd' } else { c })
        .collect()
}

/// The words of normalised text, in order: runs of letters and digits.
pub fn words(normalised: &str) -> impl Iterator<Item = &str> {
    normalised.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Normalised words joined by single spaces, with one at either end, so that a phrase is found with `contains`.
pub fn phrase_line(text: &str) -> String {
    let normalised = normalise(text);
    let mut line = String::with_capacity(normalised.len() + 2);
    line.push(' ');
    for word in words(&normalised) {
        line.push_str(word);
        line.push(' ');
    }
    line
}

/// A word without its commonest English ending, so that "decisions" meets "decision" and "architecting" "architect".
pub fn stem(word: &str) -> &str {
    for (ending, keep) in [("ies", 4), ("ing", 4), ("es", 4), ("ed", 4), ("s", 3), ("y", 4)] {
        if ending == "s" && word.ends_with("ss") {
            continue;
        }
        // "es" only after a sibilant ("processes"), so that "services" keeps the stem of "service".
        if ending == "es" && !["sses", "xes", "zes", "ches", "shes"].iter().any(|e| word.ends_with(e)) {
            continue;
        }
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() >= keep
        {
            return rest;
        }
    }
    word
}

/// Words joined for a reader: "architect-new-system" becomes "Architect new system".
pub fn title_of_slug(slug: &str) -> String {
    let spaced = slug.replace(['-', '_'], " ");
    let mut letters = spaced.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// How alike two slugs are, 0 to 1, for "did you mean": shared words and shared letter pairs.
pub fn likeness(a: &str, b: &str) -> f64 {
    let pairs = |s: &str| s.as_bytes().windows(2).map(|w| [w[0], w[1]]).collect::<Vec<_>>();
    let (pa, mut pb) = (pairs(a), pairs(b));
    let total = pa.len() + pb.len();
    if total == 0 {
        return 0.0;
    }
    let mut shared = 0usize;
    for pair in &pa {
        if let Some(at) = pb.iter().position(|other| other == pair) {
            pb.swap_remove(at);
            shared += 1;
        }
    }
    2.0 * shared as f64 / total as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vietnamese_loses_its_marks_and_nothing_else() {
        assert_eq!(normalise("Viết một ADR về việc chọn CƠ SỞ DỮ LIỆU"), "viet mot adr ve viec chon co so du lieu");
        assert_eq!(normalise("Đặc điểm"), "dac diem");
        assert_eq!(normalise("đ\u{323}"), "d");
    }

    #[test]
    fn stems_join_plural_and_singular_without_eating_short_words() {
        for (word, expected) in [
            ("decisions", "decision"),
            ("systems", "system"),
            ("services", "service"),
            ("processes", "process"),
            ("databases", "database"),
            ("policies", "polic"),
            ("policy", "polic"),
            ("architecting", "architect"),
            ("process", "process"),
            ("is", "is"),
            ("okrs", "okr"),
        ] {
            assert_eq!(stem(word), expected);
        }
    }

    #[test]
    fn a_typing_mistake_is_more_alike_than_another_persona() {
        let wanted = "chief-technology-officer";
        assert!(likeness("cheif-technology-oficer", wanted) > likeness("chief-medical-officer", wanted));
    }
}
