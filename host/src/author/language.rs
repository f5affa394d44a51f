//! The languages that a plugin can be written in here, and what their projects call things.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    Rust,
    /// JavaScript
    #[value(alias = "javascript")]
    Js,
    Python,
    Go,
    C,
}

impl Language {
    /// As in `--lang`, `plugin.toml` and the folder of its templates.
    pub fn id(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::Js => "js",
            Language::Python => "python",
            Language::Go => "go",
            Language::C => "c",
        }
    }

    /// As people call it.
    pub fn title(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::Js => "JavaScript",
            Language::Python => "Python",
            Language::Go => "Go",
            Language::C => "C",
        }
    }

    /// The file that the author writes.
    pub(super) fn source(self) -> &'static str {
        match self {
            Language::Rust => "src/lib.rs",
            Language::Js => "tool.js",
            Language::Python => "tool.py",
            Language::Go => "tool.go",
            Language::C => "tool.c",
        }
    }

    /// Folders that hold support code and the contract.
    pub(super) fn support(self) -> &'static str {
        match self {
            Language::Rust => ".cyberos/",
            Language::Js | Language::Python => "cyberos/`, `wit/deps/",
            Language::Go => "cyberos/`, `wasihttp/`, `internal/`, `wit/",
            Language::C => "cyberos/`, `wit/",
        }
    }

    /// Must host functions be named in `wit/plugin.wit` before the code can import them?
    pub(super) fn has_world(self) -> bool {
        matches!(self, Language::Js | Language::Python)
    }

    /// How the code asks a service over HTTP, for the project's README.
    pub(super) fn fetch(self) -> &'static str {
        match self {
            Language::Rust => "call `http_fetch::fetch` of the SDK",
            Language::Js => "take `http-fetch` into `wit/plugin.wit`, import it in `tool.js`",
            Language::Python => "take `http-fetch` into `wit/plugin.wit`, import it in `tool.py`",
            Language::Go => "call `cyberos.Fetch`, or give net/http the transport of `wasihttp`,",
            Language::C => "call `cyberos_plugin_http_fetch_fetch`",
        }
    }

    /// What version control leaves out, beside `/build/`.
    pub(super) fn ignored(self) -> &'static str {
        match self {
            Language::Rust => "/target/",
            Language::Js => "/node_modules/",
            Language::Python => "/.venv/\n__pycache__/",
            Language::Go | Language::C => "",
        }
    }
}
