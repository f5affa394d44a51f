//! Plugin authors: what the pages in docs/plugin-authors tell them to type makes a tool that answers, in every language.

use bridge_tests::{bridge_binary, root};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A person with an empty home, the bridge on the path, and the tools that `scripts/need-authors` installs.
pub struct Author {
    home: TempDir,
}

impl Author {
    pub fn new() -> Author {
        Author { home: TempDir::with_prefix("author-").unwrap() }
    }

    fn path() -> String {
        let tools = root().join("target/authors");
        let own = [
            bridge_binary().parent().unwrap().to_owned(),
            tools.join("js/node_modules/.bin"),
            tools.join("python/bin"),
        ];
        let own: Vec<String> = own.iter().map(|place| place.display().to_string()).collect();
        format!("{}:{}", own.join(":"), std::env::var("PATH").unwrap())
    }

    pub fn at_home(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let cache = |name: &str| root().join("target/authors").join(name);
        command.env_clear().env("HOME", self.home.path()).env("PATH", Author::path()).current_dir(self.home.path());
        // What a second build would find again at home.
        command.env("CARGO_TARGET_DIR", cache("cargo")).env("GOCACHE", cache("go")).env("GOTOOLCHAIN", "local");
        let home = std::env::var("HOME").unwrap();
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            command.env(name, std::env::var(name).unwrap_or(format!("{home}/{folder}")));
        }
        command
    }

    /// Commands as they stand in a page, the first that fails ends them.
    fn types(&self, commands: &str) -> Ran {
        self.at_home(Path::new("/bin/bash")).args(["-euc", commands]).output().unwrap().into()
    }

    pub fn bridge(&self, words: &[&str]) -> Ran {
        self.at_home(&bridge_binary()).args(words).output().unwrap().into()
    }

    pub fn project(&self, name: &str, lang: &str) -> PathBuf {
        let ran = self.bridge(&["plugin", "new", name, "--lang", lang]);
        assert_eq!(ran.status, 0, "{}", ran.err);
        self.home.path().join(name)
    }
}

pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            status: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The first block of this kind after the heading.
pub fn block(page: &str, heading: &str, kind: &str) -> String {
    let (_, rest) = page.split_once(heading).unwrap_or_else(|| panic!("the page has no {heading:?}"));
    let (_, rest) = rest.split_once(&format!("```{kind}\n")).unwrap_or_else(|| panic!("no {kind} after {heading:?}"));
    rest.split_once("```").expect("the block ends").0.to_owned()
}

/// Follow the page as it stands and compare with what it promises.
#[track_caller]
fn the_page_is_true(page: &str, languages: &[&str]) {
    let page = fs::read_to_string(root().join("docs/plugin-authors").join(page)).unwrap();
    let author = Author::new();
    // when
    let ran = author.types(&block(&page, "## Make, build, call", "sh"));
    // then
    assert_eq!(ran.status, 0, "{}\n{}", ran.out, ran.err);
    let answer = &ran.out[ran.out.find("\n{").unwrap_or_else(|| panic!("no answer in {}", ran.out))..];
    let promised: Value = serde_json::from_str(&block(&page, "## Make, build, call", "json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(answer).unwrap(), promised);
    assert!(ran.out.contains("build/demo-greet.wasm") && ran.out.contains("sha256"), "{}", ran.out);
    // and an operator sees which language it was written in, where that is in it
    let ran = author.bridge(&["plugins", "inspect", "demo-greet/build/demo-greet.wasm", "--json"]);
    let label: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
    let producers = label["provenance"]["producers"].as_array().unwrap();
    let said: Vec<&str> = producers.iter().filter_map(|line| line.as_str()?.strip_prefix("language ")).collect();
    let said: Vec<&str> = said.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(said, languages, "{producers:?}");
}

#[test]
fn the_page_for_rust_is_true() {
    // A release is stripped of what the compiler says of itself.
    the_page_is_true("rust.md", &[]);
    // Not beside the first: both builds write the same file of a shared target directory.
    the_service_is_asked("rust", "rust.md", "rust", "src/lib.rs", |source, shown| {
        let (imports, function) = shown.split_at(shown.find("fn call").unwrap());
        let source = source.replace("use cyberos_plugin_sdk::prelude::*;", imports);
        instead(&source, "fn call", "}\n\nexport_tools!", function)
    });
}

#[test]
fn the_page_for_javascript_is_true() {
    the_page_is_true("javascript.md", &["JavaScript"]);
}

#[test]
fn the_page_for_python_is_true() {
    the_page_is_true("python.md", &[]);
}

/// And Go's heap and the WASI adapter, which share a memory, keep out of each other's way, and what only `wasihttp` needs is
/// not there.
#[test]
fn the_page_for_go_is_true_and_the_heap_may_grow() {
    the_page_is_true("go.md", &["Go"]);

    // given
    let author = Author::new();
    let project = author.project("demo-greet", "go");
    let source = fs::read_to_string(project.join("tool.go")).unwrap();
    let greedy = source.replace("import ", "import \"fmt\"\nimport \"os\"\nimport \"bytes\"\nimport ").replace(
        "\treturn Greeting{",
        r#"
	fmt.Fprintln(os.Stderr, "the adapter works before")
	full := bytes.Repeat([]byte{0xab}, 1<<20)
	var heap [][]byte
	for len(heap) < 32 {
		heap = append(heap, bytes.Clone(full))
	}
	for n, block := range heap {
		fmt.Fprintln(os.Stderr, "and after", n, os.Getenv("NONE"))
		if !bytes.Equal(block, full) {
			return Greeting{}, cyberos.Internal("the heap was written over")
		}
	}
	return Greeting{"#,
    );
    fs::write(project.join("tool.go"), greedy).unwrap();
    // when
    let built = author.bridge(&["plugin", "build", &project.display().to_string()]);
    assert_eq!(built.status, 0, "{}", built.err);
    let component = fs::read(project.join("build/demo-greet.wasm")).unwrap();
    let imports = |interface: &str| component.windows(interface.len()).any(|part| part == interface.as_bytes());
    assert!(imports("wasi:cli/") && !imports("wasi:http/"));
    let served = project.join("build").display().to_string();
    let ran = author.bridge(&["--plugins", &served, "tools", "call", "cyberos.demo.greet", r#"{"name":"Ada"}"#]);
    // then
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("Hello, Ada!"), "{}", ran.out);
}

/// And a schema is kept, a second build replaces the first, and a mistake in the code is shown in the compiler's words.
#[test]
fn the_page_for_c_is_true_and_the_tool_can_be_changed() {
    // The linker strips what clang says of itself.
    the_page_is_true("c.md", &[]);

    // given
    let author = Author::new();
    let project = author.project("demo-greet", "c");
    let here = project.display().to_string();
    let source = fs::read_to_string(project.join("tool.c")).unwrap();
    let call = |name: &str| {
        let arguments = json!({ "name": name }).to_string();
        let build = project.join("build").display().to_string();
        author.bridge(&["--plugins", &build, "tools", "call", "cyberos.demo.greet", &arguments])
    };
    assert_eq!(author.bridge(&["plugin", "build", &here]).status, 0);
    // then: text of any kind arrives as it was sent
    let odd = "a \"b\" \\ \u{1} \n é 😀 </script>";
    assert_eq!(serde_json::from_str::<Value>(&call(odd).out).unwrap()["text"], format!("Hello, {odd}!"));
    let refused = call("");
    assert!(refused.status == 2 && refused.err.contains("schema_violation"), "{}", refused.err);

    // when it is changed
    fs::write(project.join("tool.c"), source.replace("Hello", "Good day")).unwrap();
    assert_eq!(author.bridge(&["plugin", "build", &here]).status, 0);
    // then
    assert_eq!(serde_json::from_str::<Value>(&call("Ada").out).unwrap()["text"], "Good day, Ada!");

    // when it is broken
    fs::write(project.join("tool.c"), source.replace("snprintf(text", "snprintf(test")).unwrap();
    let broken = author.bridge(&["plugin", "build", &here]);
    // then: the old component is still there
    assert_eq!(broken.status, 1, "{}", broken.err);
    assert!(broken.err.contains("tool.c:12") && broken.err.contains("test"), "{}", broken.err);
    assert_eq!(call("Ada").status, 0);
}

/// What the page says under "Ask a service", put into a new project, passes the cases that README.md shows.
#[track_caller]
fn the_service_is_asked(lang: &str, page: &str, kind: &str, source: &str, change: impl Fn(&str, &str) -> String) {
    let read = |page: &str| fs::read_to_string(root().join("docs/plugin-authors").join(page)).unwrap();
    let (page, readme) = (read(page), read("README.md"));
    let (grants, cases) = (block(&readme, "## Ask a service", "toml"), block(&readme, "answers from the case", "toml"));
    let author = Author::new();
    let project = author.project("demo-greet", lang);
    let path = project.join(source);
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, change(&before, &block(&page, "## Ask a service", kind))).unwrap();
    let world = project.join("wit/plugin.wit");
    if let Ok(text) = fs::read_to_string(&world) {
        fs::write(&world, text.replace("// import", "import")).unwrap();
    }
    fs::write(project.join("grants.toml"), grants).unwrap();
    fs::write(project.join("cases/greets.toml"), cases).unwrap();
    // when
    let ran = author.bridge(&["plugin", "test", &project.display().to_string()]);
    // then
    assert_eq!(ran.status, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.out.contains("3 passed, 0 failed"), "{}", ran.out);
}

/// The text with everything between two places taken out, and this there instead.
pub fn instead(text: &str, from: &str, to: &str, new: &str) -> String {
    let (before, rest) = text.split_once(from).unwrap_or_else(|| panic!("there is no {from:?}"));
    let (_, after) = rest.split_once(to).unwrap_or_else(|| panic!("there is no {to:?}"));
    format!("{before}{new}\n{to}{after}")
}

#[test]
fn the_page_for_c_shows_how_to_ask_a_service() {
    the_service_is_asked("c", "c.md", "c", "tool.c", |source, shown| {
        instead(source, "static void greet", "const struct tool TOOLS", shown)
    });
}

#[test]
fn the_page_for_go_shows_how_to_ask_a_service() {
    the_service_is_asked("go", "go.md", "go", "tool.go", greets_in_go);
}

/// `tool.go` with the imports and the function that a page shows.
pub fn greets_in_go(source: &str, shown: &str) -> String {
    let (_, rest) = source.split_once("import \"plugin.local/demo-greet/cyberos\"").unwrap();
    let (imports, function) = shown.split_at(shown.find("func greet").unwrap());
    format!("package main\n\n{imports}{}", instead(rest, "func greet", "func init()", function))
}

#[test]
fn the_page_for_python_shows_how_to_ask_a_service() {
    the_service_is_asked("python", "python.md", "python", "tool.py", |source, shown| {
        let (imports, function) = shown.split_at(shown.find("def greet").unwrap());
        let (source, _) = source.split_once("def greet").unwrap();
        format!("{}{function}", source.replace("from cyberos import READ_ONLY, Tools, tool\n", imports))
    });
}

#[test]
fn the_page_for_javascript_shows_how_to_ask_a_service() {
    the_service_is_asked("js", "javascript.md", "js", "tool.js", |source, shown| {
        let source = source.replace("import { READ_ONLY, serve } from './cyberos/tools.js';\n", shown);
        instead(&source, "  call({ name }) {", "};\n\nexport const tools", "  call,")
    });
}

#[test]
fn a_name_that_no_plugin_can_have_is_refused_with_the_reason() {
    let author = Author::new();
    for (name, why) in [
        ("Demo", "lower-case"),
        ("../up", "lower-case"),
        ("", "lower-case"),
        ("3d-print", "begin with a letter"),
        ("cuo-route", "the bridge's own tools"),
        (&"x".repeat(60), "64 characters"),
    ] {
        let ran = author.bridge(&["plugin", "new", name, "--lang", "rust"]);
        assert_eq!(ran.status, 2, "{name}: {}", ran.out);
        assert!(ran.err.contains(why), "{name}: {}", ran.err);
    }
    assert_eq!(fs::read_dir(author.home.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn nothing_that_is_there_is_written_over() {
    // given
    let author = Author::new();
    let taken = author.home.path().join("demo-greet");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("thesis.txt"), "years of work").unwrap();
    // when
    let ran = author.bridge(&["plugin", "new", "demo-greet", "--lang", "c"]);
    // then
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("not empty") && ran.err.contains("--dir"), "{}", ran.err);
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
    // and an empty directory will do
    fs::create_dir(author.home.path().join("empty")).unwrap();
    let ran = author.bridge(&["plugin", "new", "demo-greet", "--lang", "c", "--dir", "empty"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
}

#[test]
fn what_is_missing_on_the_machine_is_said_in_one_line_with_the_command_that_installs_it() {
    let author = Author::new();
    for (lang, what, install) in [
        ("rust", "cargo", "rustup target add wasm32-wasip2"),
        ("js", "Node.js", "apt-get install nodejs npm"),
        ("python", "componentize-py", "pip install -r requirements.txt"),
        ("go", "Go 1.24", "https://go.dev/doc/install"),
        ("c", "clang", "apt-get install clang-16 lld-16"),
    ] {
        let project = author.project(&format!("demo-{lang}"), lang);
        // when
        let mut bare = author.at_home(&bridge_binary());
        let ran: Ran = bare.env("PATH", "/nonexistent").args(["plugin", "build"]).arg(project).output().unwrap().into();
        // then
        assert_eq!(ran.status, 2, "{lang}");
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert!(ran.err.contains(what) && ran.err.contains("missing") && ran.err.contains(install), "{}", ran.err);
    }
}

#[test]
fn a_manifest_that_cannot_be_used_is_refused_with_its_line() {
    let author = Author::new();
    let project = author.project("demo-greet", "c");
    let here = project.display().to_string();
    let manifest = fs::read_to_string(project.join("plugin.toml")).unwrap();
    for (from, to, why) in [
        ("lang = \"c\"", "lang = \"cobol\"", "line 3"),
        ("[c]", "[c]\nsource = \"x\"", "unknown field `source`"),
        ("build/demo-greet.wasm", "../demo-greet.wasm", "below the project"),
        ("build/demo-greet.wasm", "build/other.wasm", "demo-greet.wasm"),
        ("name = \"demo-greet\"", "name = \"Demo\"", "lower-case"),
    ] {
        fs::write(project.join("plugin.toml"), manifest.replace(from, to)).unwrap();
        let ran = author.bridge(&["plugin", "build", &here]);
        assert_eq!(ran.status, 2, "{to}: {}", ran.out);
        assert!(ran.err.contains(why) && ran.err.contains("plugin.toml"), "{to}: {}", ran.err);
    }
    // and where there is no project at all
    let ran = author.bridge(&["plugin", "build", &author.home.path().display().to_string()]);
    assert!(ran.status == 2 && ran.err.contains("plugin new"), "{}", ran.err);
}

/// The templates and the tests must not drift apart.
#[test]
fn projects_pin_the_versions_that_the_tests_build_with() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let asked: Value =
        serde_json::from_str(&read("host/templates/js/package.json").replace("{{ name }}", "x")).unwrap();
    let tested: Value = serde_json::from_str(&read("tests/authors/package.json")).unwrap();
    assert_eq!(asked["devDependencies"], tested["dependencies"]);
    assert!(read("tests/authors/requirements.txt").contains(read("host/templates/python/requirements.txt").trim()));
    let page = read("docs/plugin-authors/javascript.md");
    for (package, version) in tested["dependencies"].as_object().unwrap() {
        assert!(page.contains(&format!("{package}@{}", version.as_str().unwrap())), "{package}");
    }
    assert!(read("docs/plugin-authors/python.md").contains(read("host/templates/python/requirements.txt").trim()));
}
