//! What the documents say is so. `UPDATE_DOCS=1` rewrites the tables that are made from the code.

use bridge_tests::root;
use clap::CommandFactory;
use cyberos_plugin_host::cli::Cli;
use cyberos_plugin_host::config::Limits;
use cyberos_plugin_host::error::Reason;
use cyberos_plugin_host::protocol::error_code;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_settings_page_lists_every_setting() {
    let command = Cli::command();
    let mut table = String::new();
    let mut section = String::new();
    for argument in command.get_arguments().filter(|a| a.get_help_heading().is_some() && !a.is_hide_set()) {
        let heading = argument.get_help_heading().expect("only settings have one");
        if section != heading {
            let gap = if section.is_empty() { "" } else { "\n" };
            table +=
                &format!("{gap}## {heading}\n\n| flag | environment | default | what it does |\n|---|---|---|---|\n");
            section = heading.into();
        }
        table += &row(argument);
    }
    table += "\n";
    holds("docs/operators/settings.md", &table);
}

fn row(argument: &clap::Arg) -> String {
    let flag = argument.get_long().expect("settings have long names");
    let environment = argument.get_env().expect("settings have variables").to_string_lossy();
    let defaults: Vec<_> = argument.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    let default = if defaults.is_empty() { "—".into() } else { format!("`{}`", defaults.join(", ")) };
    let help = argument.get_long_help().or(argument.get_help()).expect("settings are explained").to_string();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let help = help.trim_end_matches('.');
    let choices: Vec<_> = argument.get_possible_values().iter().map(|v| format!("`{}`", v.get_name())).collect();
    let one_of = if choices.is_empty() { String::new() } else { format!(" One of {}.", choices.join(", ")) };
    format!("| `--{flag}` | `{environment}` | {default} | {help}.{one_of} |\n")
}

#[test]
fn the_errors_page_lists_every_reason() {
    let mut table = String::from("| reason | class | code | default hint |\n|---|---|---|---|\n");
    for reason in Reason::ALL {
        let (class, code) = (reason.class().as_str(), error_code(*reason));
        table += &format!("| `{}` | `{class}` | {code} | {} |\n", reason.as_str(), reason.default_hint());
    }
    holds("docs/operators/errors.md", &table);
}

#[test]
fn the_plugins_page_names_every_grant_and_limit() {
    let page = fs::read_to_string(root().join("docs/operators/plugins.md")).unwrap();
    let source = fs::read_to_string(root().join("host/src/config/grants.rs")).unwrap();
    let fields =
        source.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':')).map(|(name, _)| name);
    // `value` is the secret once it was read; nobody writes it.
    let missing: Vec<_> =
        fields.filter(|name| !name.contains(' ') && *name != "value" && !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/operators/plugins.md does not name {missing:?}");
}

#[test]
fn the_plugins_page_has_the_limits_defaults() {
    let page = fs::read_to_string(root().join("docs/operators/plugins.md")).unwrap();
    let defaults = format!("{:?}", Limits::default());
    let fields = defaults.trim_start_matches("Limits { ").trim_end_matches(" }").split(", ");
    for (name, value) in fields.map(|field| field.split_once(": ").unwrap()) {
        assert!(page.contains(&format!("| `{name}` | {value} |")), "docs/operators/plugins.md: {name} is {value}");
    }
}

#[test]
fn the_dependencies_page_lists_every_direct_dependency() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, after) = manifest.split_once("[workspace.dependencies]").unwrap();
    let (section, _) = after.split_once("\n[").unwrap();
    let mut declared: Vec<_> = section.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    declared.retain(|name| !name.starts_with('#'));
    let page = fs::read_to_string(root().join("docs/decisions/dependencies.md")).unwrap();
    let mut explained: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    declared.sort_unstable();
    explained.sort_unstable();
    assert_eq!(explained, declared, "docs/decisions/dependencies.md is not the list in Cargo.toml");
}

#[test]
fn no_document_is_about_somebodys_machine() {
    let mut found = vec![];
    for page in documents() {
        let text = fs::read_to_string(&page).unwrap();
        for words in ["/home/", "/root/", "/work/", "/tmp/", "helper", "this session", "registry.npmjs", "index.crates"]
        {
            if text.contains(words) {
                found.push(format!("{}: {words}", page.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut broken = vec![];
    for page in documents() {
        let text = fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(' ') {
                continue;
            }
            if !page.parent().unwrap().join(target).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_page_is_in_the_index_beside_it() {
    let mut left_out = vec![];
    for directory in ["docs/operators", "docs/plugin-authors", "docs/decisions"] {
        let index = fs::read_to_string(root().join(directory).join("README.md")).unwrap();
        for entry in fs::read_dir(root().join(directory)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name.ends_with(".md") && name != "README.md" && !index.contains(&format!("]({name})")) {
                left_out.push(format!("{directory}/{name}"));
            }
        }
    }
    assert!(left_out.is_empty(), "{left_out:#?}");
}

/// What a bridge says of a version that may not serve is explained where operators look it up.
#[test]
fn the_hot_swap_page_has_every_word_for_a_version_that_may_not_serve() {
    let page = fs::read_to_string(root().join("docs/operators/hot-swap.md")).unwrap();
    let explained: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let mut missing = vec![];
    for word in cyberos_plugin_host::plugins::WORDS {
        if !explained.contains(&word) {
            missing.push(word);
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// The page holds the table between its markers, to the letter.
fn holds(page: &str, table: &str) {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (start, end) = ("<!-- made from the code -->\n", "<!-- end -->\n");
    let from = text.find(start).expect("the page has its start marker") + start.len();
    let to = text.find(end).expect("the page has its end marker");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{}{table}{}", &text[..from], &text[to..])).unwrap();
        return;
    }
    assert!(text[from..to] == *table, "{page} is out of date; UPDATE_DOCS=1 rewrites its table");
}

fn documents() -> Vec<PathBuf> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let skipped = ["target", "node_modules", ".git", "catalogue"].iter().any(|s| name == *s);
            if path.is_dir() && !skipped {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![];
    walk(&root(), &mut found);
    found
}
