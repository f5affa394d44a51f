//! What is wrong in a file that an operator wrote, each with its line, its column and the way to mend it.
//!
//! Knows TOML's places, and nothing of what the file says.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml_edit::Document;

use super::settings::BadSetting;

/// Something wrong at a place below the value that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Names of fields and positions in lists, from the value inwards.
    pub at: Vec<String>,
    /// A clause: what is wrong.
    pub what: String,
    /// A sentence: what to do.
    pub remedy: String,
}

impl Wrong {
    pub fn at(at: &[&str], what: impl Into<String>, remedy: impl Into<String>) -> Wrong {
        Wrong { at: at.iter().map(|step| (*step).to_owned()).collect(), what: what.into(), remedy: remedy.into() }
    }

    /// Seen from further out.
    pub fn below(mut self, outer: &[&str]) -> Wrong {
        self.at.splice(0..0, outer.iter().map(|step| (*step).to_owned()));
        self
    }

    pub fn sentence(&self) -> String {
        format!("{}: {}. {}", self.at.join("."), self.what, self.remedy)
    }
}

/// One mistake and where it stands. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub line: usize,
    pub column: usize,
    /// The field, such as `plugins.weather.limits.fuel`; empty for the file as a whole.
    pub place: String,
    pub what: String,
    pub remedy: String,
}

/// Everything that is wrong in one file, in the order of its lines. Never empty.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Mistakes {
    pub path: PathBuf,
    pub all: Vec<Mistake>,
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, mistake) in self.all.iter().enumerate() {
            let (newline, path) = (if n > 0 { "\n" } else { "" }, self.path.display());
            let Mistake { line, column, place, what, remedy } = mistake;
            let colon = if place.is_empty() { "" } else { ": " };
            write!(f, "{newline}{path}:{line}:{column}: {place}{colon}{what}. {remedy}")?;
        }
        Ok(())
    }
}

impl From<Mistakes> for BadSetting {
    fn from(mistakes: Mistakes) -> Self {
        BadSetting::new(mistakes.to_string())
    }
}

/// The file's text, and where each of its fields stands.
pub struct Places<'t> {
    path: &'t Path,
    text: &'t str,
    document: Document<&'t str>,
}

impl<'t> Places<'t> {
    /// Errors: the text is not TOML.
    pub fn of(path: &'t Path, text: &'t str) -> Result<Self, Mistakes> {
        match Document::parse(text) {
            Ok(document) => Ok(Places { path, text, document }),
            Err(error) => {
                let (line, column) = position(text, error.span().map_or(0, |span| span.start));
                let what = error.message().trim().replace('\n', ", ");
                let remedy = "Mend the TOML here; nothing after it was read.".to_owned();
                let mistake = Mistake { line, column, place: String::new(), what, remedy };
                Err(Mistakes { path: path.to_owned(), all: vec![mistake] })
            }
        }
    }

    /// With lines and columns, in the order of the file.
    pub fn mistakes(&self, wrongs: Vec<Wrong>) -> Mistakes {
        let located = wrongs.into_iter().map(|wrong| {
            let (line, column) = position(self.text, self.span(&wrong.at).start);
            Mistake { line, column, place: wrong.at.join("."), what: wrong.what, remedy: wrong.remedy }
        });
        let mut all: Vec<Mistake> = located.collect();
        all.sort_by_key(|mistake| (mistake.line, mistake.column));
        Mistakes { path: self.path.to_owned(), all }
    }

    /// The value, or the name of the table; of what is not there, the innermost table that is.
    fn span(&self, at: &[String]) -> Range<usize> {
        let (mut item, mut found) = (self.document.as_item(), 0..0);
        for step in at {
            if let Some(array) = item.as_array() {
                let element = step.parse().ok().and_then(|n: usize| array.get(n));
                return element.and_then(|value| value.span()).unwrap_or(found);
            }
            let Some((key, next)) = item.as_table_like().and_then(|table| table.get_key_value(step)) else {
                return found;
            };
            let own = if next.is_value() && !next.is_inline_table() { next.span() } else { key.span() };
            found = own.or(next.span()).unwrap_or(found);
            item = next;
        }
        found
    }
}

fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_in_headers_inline_tables_and_lists() {
        let text = "# häh\n[plugins.w]\nlimits = { fuel = 0 }\n[plugins.w.upstreams.api]\npaths = [\"/a\", \"/b*\"]\n";
        let places = Places::of(Path::new("p.toml"), text).unwrap();
        let at = |steps: &[&str]| {
            let all = places.mistakes(vec![Wrong::at(steps, "is wrong", "Mend it.")]).all;
            (all[0].line, all[0].column)
        };
        assert_eq!(at(&["plugins", "w", "limits", "fuel"]), (3, 19));
        assert_eq!(at(&["plugins", "w", "upstreams", "api", "paths", "1"]), (5, 16));
        assert_eq!(at(&["plugins", "w", "upstreams", "api", "url"]), (4, 22), "what is missing: its table");
        assert_eq!(at(&["policy", "keys"]), (1, 1));
    }

    #[test]
    fn text_that_is_no_toml_has_a_place_too() {
        let mistakes = Places::of(Path::new("p.toml"), "[plugins.w]\ncuo = yes\n").err().unwrap();
        let shown = mistakes.to_string();
        assert!(shown.starts_with("p.toml:2:7: "), "{shown}");
    }
}
