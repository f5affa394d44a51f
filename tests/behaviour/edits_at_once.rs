//! Commands that change plugins.toml at the same time, whichever they are and whatever state directory they have: none
//! loses what another one wrote.

use bridge_tests::{bridge_binary, setup::target};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

fn begin(home: &Path, number: usize, words: &[&str]) -> Child {
    let mut command = Command::new(bridge_binary());
    command.env_clear().env("HOME", home);
    // Operators with homes of their own.
    command.arg(format!("--state-dir={}", home.join(format!("state-{number}")).display()));
    command.arg(format!("--plugins={}", home.join("plugins").display())).args(words);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn grants_revocations_and_additions_at_once_are_none_lost() {
    // given
    let home = TempDir::with_prefix("edits-").unwrap();
    let plugins = home.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let file = plugins.join("plugins.toml");
    let taken: String = (0..6).map(|n| format!("[plugins.old-{n}]\nelicit = true\n")).collect();
    fs::write(&file, format!("# ours\n{taken}")).unwrap();
    let component = target().join("plugins/wasm32-wasip2/component/fixture_echo.wasm");
    let component = component.to_str().unwrap();
    // when
    let mut running = vec![];
    for n in 0..6 {
        let (granted, revoked, added) = (format!("new-{n}"), format!("old-{n}"), format!("add-{n}"));
        running.push(begin(home.path(), 3 * n, &["plugins", "grant", &granted, "--import", "sample"]));
        running.push(begin(home.path(), 3 * n + 1, &["plugins", "revoke", &revoked, "--import", "elicit"]));
        running.push(begin(home.path(), 3 * n + 2, &["plugin", "add", component, "--name", &added]));
    }
    for command in running {
        let ended = command.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    // then
    let text = fs::read_to_string(&file).unwrap();
    let entries: toml::Table = text.parse().unwrap();
    let entries = &entries["plugins"];
    for n in 0..6 {
        assert_eq!(entries[&format!("new-{n}")]["sample"].as_bool(), Some(true), "{text}");
        assert!(entries[&format!("old-{n}")].get("elicit").is_none(), "{text}");
        assert!(entries[&format!("add-{n}")]["digest"].is_str(), "{text}");
        assert!(plugins.join(format!("add-{n}.wasm")).is_file());
    }
    assert!(text.starts_with("# ours\n"), "{text}");
    let left: Vec<String> =
        fs::read_dir(&plugins).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| name == "plugins.toml" || name.ends_with(".wasm")), "{left:?}");
}
