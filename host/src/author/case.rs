//! Case files: one call with what is expected of it, in TOML. Read as a whole; a mistake names its file, line and column.
//!
//! Source: `docs/plugin-authors/test.md`, which shows every field.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::error::{Class, Reason};

/// One call of one tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Names the case and its snapshot. The file's name unless given; with a number where a file has several.
    #[serde(default)]
    pub name: String,
    pub tool: String,
    /// A table, or JSON in a string.
    #[serde(default, deserialize_with = "object")]
    pub arguments: Map<String, Value>,
    /// A person agreed to the call.
    #[serde(default)]
    pub confirm: bool,
    /// The caller's scopes. All of them unless given.
    #[serde(default)]
    pub scopes: Option<BTreeSet<String>>,
    #[serde(default)]
    pub expect: Expect,
    #[serde(default)]
    pub limits: Bounds,
    /// What upstreams answer.
    #[serde(default)]
    pub upstream: Vec<Answer>,
    /// What the user and the model answer.
    #[serde(default)]
    pub answer: Vec<ClientAnswer>,
    #[serde(skip)]
    pub file: PathBuf,
}

/// Everything that is given must be so. Nothing given: the call succeeds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "RawExpect")]
pub struct Expect {
    pub outcome: Outcome,
    /// The same result, or error, as in `snapshots/NAME.json`.
    pub snapshot: bool,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Result {
        structured: Option<Value>,
        /// All text blocks, joined by line ends.
        text: Option<String>,
        /// Is part of the text.
        contains: Option<String>,
        is_error: Option<bool>,
    },
    Error(ExpectedError),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedError {
    #[serde(default, deserialize_with = "class")]
    pub class: Option<Class>,
    #[serde(default, deserialize_with = "reason")]
    pub reason: Option<Reason>,
    /// Is part of the message.
    #[serde(default)]
    pub message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExpect {
    #[serde(default, deserialize_with = "json")]
    structured: Option<Value>,
    text: Option<String>,
    contains: Option<String>,
    is_error: Option<bool>,
    error: Option<ExpectedError>,
    #[serde(default)]
    snapshot: bool,
}

/// The most that the call may use.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    pub fuel: Option<u64>,
    pub memory_bytes: Option<usize>,
    pub time_ms: Option<u64>,
}

/// One answer of an upstream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The upstream's name in grants.toml.
    pub name: String,
    #[serde(default = "get")]
    pub method: String,
    /// With its query, as the plugin asks for it.
    pub path: String,
    #[serde(default = "ok")]
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub body: String,
    /// It does not answer.
    #[serde(default)]
    pub trouble: Option<Trouble>,
    /// What the request must be like.
    #[serde(default)]
    pub sent: Option<Sent>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trouble {
    Timeout,
    Unreachable,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default, deserialize_with = "json")]
    pub json: Option<Value>,
}

/// One answer of the user or of the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawClientAnswer")]
pub struct ClientAnswer {
    pub elicit: Option<Elicited>,
    /// The model's text.
    pub sample: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClientAnswer {
    elicit: Option<Elicited>,
    sample: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elicited {
    pub action: Action,
    /// The form's fields.
    #[serde(default, deserialize_with = "object")]
    pub content: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Accept,
    Decline,
    Cancel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    case: Vec<Case>,
}

/// Why cases cannot be run. The text is for the author.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error(
        "there are no cases in {0}. Write one, such as {0}/greets.toml:\n\n{EXAMPLE}\n`plugin test --update` fills in what `snapshot = true` compares with."
    )]
    None(String),
    #[error("{file}: {why}")]
    Bad { file: String, why: String },
}

const EXAMPLE: &str = "    tool = \"cyberos.demo.greet\"\n    arguments = { name = \"Ada\" }\n\n    [expect]\n    structured = { text = \"Hello, Ada!\" }\n";

impl Case {
    /// Every case of the `*.toml` files in this directory, in the order of their names.
    pub fn read_all(directory: &Path) -> Result<Vec<Case>, Unreadable> {
        let none = || Unreadable::None(directory.display().to_string());
        let entries = std::fs::read_dir(directory).map_err(|_| none())?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
        files.sort();
        let mut cases: Vec<Case> = vec![];
        let mut names: HashMap<String, PathBuf> = HashMap::new();
        for file in files {
            for case in Self::read(&file)? {
                if let Some(other) = names.insert(case.name.clone(), file.clone()) {
                    let why = format!("the case {} is also in {}; give one another name", case.name, other.display());
                    return Err(Unreadable::Bad { file: file.display().to_string(), why });
                }
                cases.push(case);
            }
        }
        match cases.is_empty() {
            true => Err(none()),
            false => Ok(cases),
        }
    }

    /// The cases of one file: one, or several as `[[case]]`.
    pub fn read(file: &Path) -> Result<Vec<Case>, Unreadable> {
        let bad = |why: String| Unreadable::Bad { file: file.display().to_string(), why };
        let text = std::fs::read_to_string(file).map_err(|e| bad(format!("it cannot be read: {e}")))?;
        // The parser's message holds the line, the column and the offending text.
        let says = |why: toml::de::Error| bad(why.to_string().trim_end().to_owned());
        let table: toml::Table = toml::from_str(&text).map_err(says)?;
        let mut cases = match table.contains_key("case") {
            true => toml::from_str::<Several>(&text).map_err(says)?.case,
            false => vec![toml::from_str::<Case>(&text).map_err(says)?],
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let several = cases.len() > 1;
        for (n, case) in cases.iter_mut().enumerate() {
            case.file = file.to_owned();
            if case.name.is_empty() {
                case.name = if several { format!("{stem}-{}", n + 1) } else { stem.clone() };
            }
            // It also names the snapshot.
            let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if !case.name.chars().all(good) || case.name.starts_with('.') {
                return Err(bad(format!("the name {:?} may have letters, digits, `-`, `_` and `.`", case.name)));
            }
        }
        Ok(cases)
    }
}

impl Default for Outcome {
    fn default() -> Self {
        Outcome::Result { structured: None, text: None, contains: None, is_error: None }
    }
}

impl TryFrom<RawExpect> for Expect {
    type Error = &'static str;

    fn try_from(raw: RawExpect) -> Result<Expect, Self::Error> {
        let RawExpect { structured, text, contains, is_error, error, snapshot } = raw;
        let of_result = structured.is_some() || text.is_some() || contains.is_some() || is_error.is_some();
        let outcome = match error {
            Some(_) if of_result => {
                return Err("a call ends in a result or in an error: take `error` or the others out");
            }
            Some(error) => Outcome::Error(error),
            None => Outcome::Result { structured, text, contains, is_error },
        };
        Ok(Expect { outcome, snapshot })
    }
}

impl TryFrom<RawClientAnswer> for ClientAnswer {
    type Error = &'static str;

    fn try_from(raw: RawClientAnswer) -> Result<ClientAnswer, Self::Error> {
        match raw {
            RawClientAnswer { elicit: Some(_), sample: Some(_) } | RawClientAnswer { elicit: None, sample: None } => {
                Err("an [[answer]] is either `elicit` (of the user) or `sample` (of the model)")
            }
            RawClientAnswer { elicit, sample } => Ok(ClientAnswer { elicit, sample }),
        }
    }
}

/// TOML has no null: JSON in a string can say everything.
fn json<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    let value = toml::Value::deserialize(value)?;
    match value {
        toml::Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            serde_json::from_str(&text).map(Some).map_err(|why| D::Error::custom(format!("this is not JSON: {why}")))
        }
        value => Ok(Some(plain(value))),
    }
}

fn object<'de, D: Deserializer<'de>>(value: D) -> Result<Map<String, Value>, D::Error> {
    match json(value)? {
        Some(Value::Object(map)) => Ok(map),
        _ => Err(D::Error::custom("this must be a table, or a JSON object in a string")),
    }
}

fn plain(value: toml::Value) -> Value {
    match value {
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => items.into_iter().map(plain).collect(),
        toml::Value::Table(table) => table.into_iter().map(|(key, value)| (key, plain(value))).collect(),
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(truth) => truth.into(),
    }
}

fn class<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Class>, D::Error> {
    Class::deserialize(value).map(Some)
}

fn reason<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Reason>, D::Error> {
    let word = String::deserialize(value)?;
    Reason::parse(&word).map(Some).ok_or_else(|| {
        let known: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        D::Error::custom(format!("there is no reason {word:?}; it is one of {}", known.join(", ")))
    })
}

fn get() -> String {
    "GET".into()
}
fn ok() -> u16 {
    200
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Case>, String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("greets.toml"), text).unwrap();
        Case::read_all(directory.path()).map_err(|why| why.to_string())
    }

    #[test]
    fn a_mistake_names_its_file_line_and_column() {
        for (text, line, says) in [
            ("tool = \"a\"\nexpects = 1\n", "line 2, column 1", "expects"),
            ("tool = \"a\"\n[expect]\nreson = \"x\"\n", "line 3, column 1", "reson"),
            ("tool = \"a\"\n[expect]\nerror = { reason = \"nonsense\" }\n", "line 3", "schema_violation"),
            ("tool = \"a\"\n[expect]\nis_error = true\nerror = {}\n", "line 2", "take `error`"),
            ("tool = \"a\"\narguments = \"{1\"\n", "line 2", "not JSON"),
            ("tool = \"a\"\narguments = [1]\n", "line 2", "must be a table"),
            ("[[case]]\ntool = \"a\"\n[[case]]\n", "line 3", "tool"),
            ("tool = \"a\"\n[[answer]]\n", "line 2", "either `elicit`"),
            ("tool = \n", "line 1", ""),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains("greets.toml") && said.contains(line) && said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn one_file_holds_one_case_or_several() {
        assert_eq!(read("tool = \"a\"\n").unwrap()[0].name, "greets");
        let several = read("[[case]]\ntool = \"a\"\n[[case]]\nname = \"other\"\ntool = \"b\"\n").unwrap();
        assert_eq!([several[0].name.as_str(), several[1].name.as_str()], ["greets-1", "other"]);
        assert!(read("[[case]]\nname = \"x\"\ntool = \"a\"\n[[case]]\nname = \"x\"\ntool = \"b\"\n").is_err());
        assert!(read("name = \"../x\"\ntool = \"a\"\n").is_err());
    }

    #[test]
    fn json_in_a_string_can_say_null() {
        let cases = read("tool = \"a\"\narguments = '{\"a\": null}'\n").unwrap();
        assert_eq!(cases[0].arguments["a"], Value::Null);
        let cases = read("tool = \"a\"\narguments = { on = 2024-01-02, n = 1.0 }\n").unwrap();
        assert_eq!(Value::Object(cases[0].arguments.clone()), serde_json::json!({ "on": "2024-01-02", "n": 1.0 }));
    }

    #[test]
    fn no_cases_at_all_is_told_with_a_case_to_start_from() {
        let directory = tempfile::tempdir().unwrap();
        let said = Case::read_all(&directory.path().join("cases")).unwrap_err().to_string();
        assert!(said.contains("there are no cases") && said.contains("[expect]"), "{said}");
    }
}
