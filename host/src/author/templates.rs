//! The files of a new project. They are in the binary (`host/templates`, `wit`, `plugins/sdk`, and the C bindings made by
//! `build.rs`), so that a project can be made and built without this repository.

use minijinja::{Environment, UndefinedBehavior, context};

use super::language::Language;

include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// A file of the project: its path with forward slashes, and its text.
pub type File = (String, String);

/// Everything that a new project has. `tool` is the name that agents will see.
pub fn files(name: &str, tool: &str, language: Language) -> Vec<File> {
    let mut files = rendered("common", name, tool, language);
    files.extend(rendered(language.id(), name, tool, language));
    match language {
        Language::Rust => {
            files.extend(copied(CONTRACT, ".cyberos/wit"));
            files.extend(copied(RUST_SDK, ".cyberos/plugins/sdk"));
        }
        Language::Js | Language::Python => {
            files.extend(rendered("component", name, tool, language).into_iter().map(|(p, t)| (format!("wit/{p}"), t)));
            files.extend(copied(CONTRACT, "wit/deps/cyberos-plugin"));
        }
        Language::Go => files.extend(copied(CONTRACT, "wit")),
        Language::C => {
            files.extend(copied(CONTRACT, "wit"));
            files.extend(copied(C_BINDINGS, "cyberos"));
        }
    }
    files
}

fn copied(files: &'static [(&str, &str)], to: &'static str) -> impl Iterator<Item = File> {
    files.iter().map(move |(path, text)| (format!("{to}/{path}"), (*text).to_owned()))
}

fn rendered(folder: &str, name: &str, tool: &str, language: Language) -> Vec<File> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    let facts = context! {
        name, tool,
        version => env!("CARGO_PKG_VERSION"),
        language => language.title(),
        source => language.source(),
        support => language.support(),
        world => language.has_world(),
        fetch => language.fetch(),
        ignored => language.ignored(),
    };
    let inside = |path: &&(&str, &str)| path.0.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let render = |(path, text): &(&str, &str)| {
        let text = engine.render_str(text, &facts).expect("the templates name only these facts");
        (placed(&path[folder.len() + 1..]), format!("{}\n", text.trim_end()))
    };
    TEMPLATES.iter().filter(inside).map(render).collect()
}

/// Names that would mean something in this repository are written with an underscore here.
fn placed(path: &str) -> String {
    match path {
        "_gitignore" => ".gitignore".into(),
        "_cyberos_workspace.toml" => ".cyberos/Cargo.toml".into(),
        path => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_what_a_project_needs() {
        for language in [Language::Rust, Language::Js, Language::Python, Language::Go, Language::C] {
            let files = files("demo-greet", "cyberos.demo.greet", language);
            let has = |path: &str| files.iter().any(|(p, _)| p == path);
            for path in
                ["plugin.toml", "grants.toml", "README.md", ".gitignore", "cases/greets.toml", language.source()]
            {
                assert!(has(path), "{}: {path}", language.id());
            }
            assert!(files.iter().all(|(_, text)| !text.contains("{{ ")), "{}", language.id());
        }
    }
}
