//! The components that are measured, as `make guests` built them, and directories of them for `--plugins`.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};

pub const ECHO: &str = "cyberos.fixture.echo";

pub fn echo_text() -> serde_json::Value {
    serde_json::json!({ "text": "the quick brown fox jumps over the lazy dog" })
}

pub fn built(file: &str) -> anyhow::Result<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/plugins/wasm32-wasip2/component");
    let path = root.join(file);
    std::fs::read(&path).with_context(|| format!("{} cannot be read: run `make guests` first", path.display()))
}

/// A directory with the echo tool.
pub fn with_echo(home: &Path) -> anyhow::Result<PathBuf> {
    let directory = home.join("plugins");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("fixture-echo.wasm"), built("fixture_echo.wasm")?)?;
    Ok(directory)
}

/// The same and two guests that misbehave in every way, under these limits, as in `plugins.toml`.
pub fn with_misbehaviour(home: &Path, limits: &str) -> anyhow::Result<PathBuf> {
    let directory = with_echo(home)?;
    let mut grants = String::new();
    for name in ["misbehaves", "hostile"] {
        std::fs::write(directory.join(format!("{name}.wasm")), built(&format!("guest_{name}.wasm"))?)?;
        grants += &format!("[plugins.{name}]\nany_tool_name = true\nlimits = {{ {limits} }}\n");
    }
    std::fs::write(directory.join("plugins.toml"), grants)?;
    Ok(directory)
}

/// `number` plugins that differ in their tool's name alone.
pub fn many_echoes(home: &Path, number: usize) -> anyhow::Result<PathBuf> {
    let directory = home.join("many");
    std::fs::create_dir_all(&directory)?;
    let original = built("fixture_echo.wasm")?;
    for n in 0..number {
        let mut wasm = original.clone();
        let places: Vec<usize> =
            original.windows(ECHO.len()).enumerate().filter(|(_, w)| *w == ECHO.as_bytes()).map(|(at, _)| at).collect();
        ensure!(!places.is_empty(), "the echo component holds its tool's name");
        let letter = |n: usize| b'a' + u8::try_from(n % 26).expect("there are 26 letters");
        for at in places {
            let end = at + ECHO.len();
            wasm[end - 2..end].copy_from_slice(&[letter(n / 26), letter(n)]);
        }
        std::fs::write(directory.join(format!("echo-{n}.wasm")), wasm)?;
    }
    Ok(directory)
}

/// The languages that `plugin new` knows and that are measured, Rust first.
pub const LANGUAGES: [&str; 5] = ["rust", "c", "go", "js", "python"];

/// The tool of the project that `plugin new` makes for a language, built as an author builds it, in `home`. It greets.
pub fn of_language(home: &Path, language: &str) -> anyhow::Result<PathBuf> {
    let name = format!("bench-{language}");
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/authors");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{0}/js/node_modules/.bin:{0}/python/bin:{path}", tools.display());
    let bridge = |words: &[&str]| -> anyhow::Result<()> {
        let mut command = std::process::Command::new(bridge_tests::bridge_binary());
        let output = command.args(words).current_dir(home).env("PATH", &path).env("GOTOOLCHAIN", "local").output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{words:?} failed; scripts/need-authors installs what it needs: {said}");
        Ok(())
    };
    bridge(&["plugin", "new", &name, "--lang", language])?;
    bridge(&["plugin", "build", &name])?;
    Ok(home.join(&name).join("build").join(format!("{name}.wasm")))
}
