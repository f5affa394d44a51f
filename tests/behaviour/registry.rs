//! Plugins on their way from an author to an operator: published to a real registry, added by tag, digest, address and
//! file, pinned, and refused when they are not what they were.

use bridge_tests::Bridge;
use bridge_tests::bridge_binary;
use bridge_tests::oci_registry::{Kind, OciRegistry, PASSWORD, USER};
use bridge_tests::setup::target;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Somebody's shell: a home of its own and nothing of the machine's settings.
struct Shell {
    home: TempDir,
    environment: Vec<(&'static str, String)>,
}

struct Ran {
    status: i32,
    out: String,
    err: String,
}

impl Shell {
    fn new() -> Shell {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("plugins")).unwrap();
        Shell { home, environment: vec![] }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Shell {
        self.environment.push((name, value.into()));
        self
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn plugins(&self) -> PathBuf {
        self.home.path().join("plugins")
    }

    /// What is in the plugins directory, sorted.
    fn listed(&self) -> Vec<String> {
        let entries = fs::read_dir(self.plugins()).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn pins(&self) -> String {
        fs::read_to_string(self.plugins().join("plugins.toml")).unwrap()
    }

    fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(bridge_binary());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.home.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = command.arg("plugin").args(words).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let status = output.status.code().expect("it was not killed");
        Ran { status, out: text(output.stdout), err: text(output.stderr) }
    }

    #[track_caller]
    fn publish(&self, file: &Path, to: &str) -> Value {
        let ran = self.run(&["publish", "--json", &file.display().to_string(), to]);
        assert_eq!(ran.status, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    }

    fn try_to_add(&self, from: &str, flags: &[&str]) -> Ran {
        let to = self.plugins().display().to_string();
        self.run(&[&["add", "--json", from, "--to", &to], flags].concat())
    }

    #[track_caller]
    fn add(&self, from: &str, flags: &[&str]) -> Value {
        let ran = self.try_to_add(from, flags);
        assert_eq!(ran.status, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    }

    /// Refused, in these words, and nothing but what was there is there.
    #[track_caller]
    fn refuses(&self, from: &str, flags: &[&str], says: &[&str]) -> Ran {
        let before = self.listed();
        let ran = self.try_to_add(from, flags);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{from}: {}", ran.err);
        for text in says {
            assert!(ran.err.contains(text), "{from}: {text:?} is not said in {}", ran.err);
        }
        assert_eq!(self.listed(), before, "{from}");
        ran
    }
}

fn built(name: &str) -> PathBuf {
    let path = target().join(format!("plugins/wasm32-wasip2/component/{name}.wasm"));
    assert!(path.is_file(), "{} is not built: run `make guests`", path.display());
    path
}

fn digest_of(path: &Path) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(fs::read(path).unwrap())))
}

/// Another version of a component: the same with one more custom section.
fn another_version(shell: &Shell, name: &str) -> PathBuf {
    let mut wasm = fs::read(built(name)).unwrap();
    wasm.extend_from_slice(b"\0\x0c\x07version2.0.");
    shell.file(&format!("{name}.wasm"), wasm)
}

#[tokio::test]
async fn a_published_component_is_added_by_tag_and_by_digest_and_serves() {
    // given
    let registry = OciRegistry::start(Kind::Plain);
    let shell = Shell::new();
    // when
    let published = shell.publish(&built("fixture_echo"), &registry.oci("tools/echo:1.0.0"));
    let added = shell.add(&registry.oci("tools/echo:1.0.0"), &[]);
    // then
    let reference = published["reference"].as_str().unwrap();
    assert!(reference.starts_with(&registry.oci("tools/echo@sha256:")), "{reference}");
    assert_eq!(added["source"], published["reference"]);
    assert_eq!(added["digest"], digest_of(&built("fixture_echo")).as_str());
    assert_eq!(fs::read(shell.plugins().join("echo.wasm")).unwrap(), fs::read(built("fixture_echo")).unwrap());
    let digest = added["digest"].as_str().unwrap();
    assert_eq!(shell.pins(), format!("[plugins.echo]\ndigest = \"{digest}\"\nsource = \"{reference}\"\n"));
    // and by digest, for somebody else, who then serves it
    let other = Shell::new();
    assert_eq!(other.add(reference, &["--name=echo-two"])["digest"], added["digest"]);
    let setup = Bridge::stdio().flag(format!("--plugins={}", other.plugins().display()));
    let bridge = setup.start().await;
    let reply = bridge.caller("alice").call("cyberos.fixture.echo", json!({ "text": "from afar" })).await;
    assert_eq!(reply.structured()["text"], "from afar");
}

#[tokio::test]
async fn what_is_published_is_the_standard_wasm_artifact() {
    // given
    let registry = OciRegistry::start(Kind::Plain);
    let shell = Shell::new().with("SOURCE_DATE_EPOCH", "1700000000");
    let file = another_version(&shell, "fixture_echo");
    // when
    let file = file.display().to_string();
    let about = ["--licenses=Apache-2.0", "--source=https://git.example/echo", "--revision=abc", "--author=Ann"];
    let ran = shell.run(&[&["publish", &file, &registry.oci("echo:2")], about.as_slice()].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    // then: only the reference is on stdout, so that a script can keep it
    assert!(ran.out.trim().starts_with(&registry.oci("echo@sha256:")) && ran.out.lines().count() == 1, "{}", ran.out);
    let manifest = get(&registry, "/v2/echo/manifests/2").await;
    assert_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    let expected = [
        ("title", "fixture_echo"),
        ("version", "2.0."),
        ("licenses", "Apache-2.0"),
        ("source", "https://git.example/echo"),
        ("revision", "abc"),
        ("authors", "Ann"),
    ];
    for (name, value) in expected {
        assert_eq!(manifest["annotations"][format!("org.opencontainers.image.{name}")], value, "{manifest:#}");
    }
    let config = get(&registry, &format!("/v2/echo/blobs/{}", manifest["config"]["digest"].as_str().unwrap())).await;
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
    assert_eq!(
        (&config["architecture"], &config["os"], &config["author"]),
        (&json!("wasm"), &json!("wasip2"), &json!("Ann"))
    );
    assert_eq!(config["layerDigests"], json!([manifest["layers"][0]["digest"]]));
    let exports = config["component"]["exports"].as_array().unwrap();
    assert!(exports.contains(&json!("cyberos:plugin/tools@1.0.0")), "{config:#}");
    assert!(config["component"]["imports"].is_array() && config["component"]["target"].is_null(), "{config:#}");
    // and the same again has the same digest
    let again = shell.run(&[&["publish", &file, &registry.oci("echo:2")], about.as_slice()].concat());
    assert_eq!(again.out, ran.out);
}

async fn get(registry: &OciRegistry, path: &str) -> Value {
    let asked = client().get(registry.url(path)).header("accept", "application/vnd.oci.image.manifest.v1+json");
    let reply = asked.send().await.unwrap();
    assert_eq!(reply.status(), 200, "{path}");
    serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap()
}

fn client() -> reqwest::Client {
    cyberos_plugin_host::upstreams::tls::install();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

#[test]
fn bytes_that_changed_in_the_registry_are_refused() {
    // given
    let registry = OciRegistry::start(Kind::Plain);
    let shell = Shell::new();
    let published = shell.publish(&built("fixture_echo"), &registry.oci("echo:1"));
    let (layer, whole) = (published["digest"].as_str().unwrap(), fs::read(built("fixture_echo")).unwrap());
    let manifest = published["reference"].as_str().unwrap().rsplit_once('@').unwrap().1.to_owned();
    // when: a flipped byte, a lost end
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(registry.blob(layer), flipped).unwrap();
    shell.refuses(&registry.oci("echo:1"), &[], &["has the digest sha256:", layer]);
    fs::write(registry.blob(layer), &whole[..whole.len() / 2]).unwrap();
    shell.refuses(&registry.oci("echo:1"), &[], &["has the digest sha256:", layer]);
    // and a manifest that is not the one that was asked for
    fs::write(registry.blob(layer), &whole).unwrap();
    let text = fs::read_to_string(registry.blob(&manifest)).unwrap();
    fs::write(registry.blob(&manifest), text.replace("\"schemaVersion\":2", "\"schemaVersion\": 2")).unwrap();
    shell.refuses(published["reference"].as_str().unwrap(), &[], &[]);
    assert!(shell.listed().is_empty());
}

#[test]
fn a_tag_that_was_moved_is_refused_until_it_is_wanted() {
    // given
    let registry = OciRegistry::start(Kind::Plain);
    let shell = Shell::new();
    let tag = registry.oci("echo:stable");
    shell.publish(&built("fixture_echo"), &tag);
    let first = shell.add(&tag, &[]);
    let kept = format!("{}\n[plugins.echo.limits] # as measured\nfuel = 1000000\n", shell.pins());
    fs::write(shell.plugins().join("plugins.toml"), &kept).unwrap();
    // when
    shell.publish(&another_version(&shell, "fixture_echo"), &tag);
    // then
    let old = first["digest"].as_str().unwrap();
    shell.refuses(&tag, &[], &["echo stands for", old, "--update", "nothing was changed"]);
    assert_eq!(shell.pins(), kept);
    assert_eq!(digest_of(&shell.plugins().join("echo.wasm")), old);
    // and when it is wanted
    let second = shell.add(&tag, &["--update"]);
    assert_eq!(second["before"], first["digest"]);
    assert_eq!(digest_of(&shell.plugins().join("echo.wasm")), second["digest"].as_str().unwrap());
    assert!(shell.pins().contains("[plugins.echo.limits] # as measured\nfuel = 1000000"), "{}", shell.pins());
    // and the old version is still what its own reference names
    shell.refuses(first["source"].as_str().unwrap(), &[], &["--update"]);
}

#[test]
fn a_registry_with_passwords_is_logged_in_to_and_the_password_is_said_nowhere() {
    let registry = OciRegistry::start(Kind::WithPasswords);
    let shell = Shell::new();
    let (echo, to) = (built("fixture_echo").display().to_string(), registry.oci("echo:1"));
    let good = format!("--password-file={}", shell.file("good", format!("{PASSWORD}\n")).display());
    let bad = format!("--password-file={}", shell.file("bad", "wrong-canary").display());
    let user = format!("--username={USER}");
    let mut said = String::new();
    let mut run = |shell: &Shell, words: &[&str]| {
        let ran = shell.run(words);
        said += &ran.out;
        said += &ran.err;
        ran
    };
    // nobody, and somebody else
    let nobody = run(&shell, &["publish", &echo, &to]);
    assert!(
        nobody.status == 2 && nobody.err.contains("refuses") && nobody.err.contains("--username"),
        "{}",
        nobody.err
    );
    let wrong = run(&shell, &["publish", &echo, &to, &user, &bad]);
    assert!(wrong.status == 2 && wrong.err.contains("not accepted"), "{}", wrong.err);
    // the right one, by a file
    let right = run(&shell, &["publish", &echo, &to, &user, &good]);
    assert_eq!(right.status, 0, "{}", right.err);
    let plugins = shell.plugins().display().to_string();
    let nobody = run(&shell, &["add", &to, "--to", &plugins]);
    assert!(nobody.status == 2 && nobody.err.contains("docker login"), "{}", nobody.err);
    assert_eq!(run(&shell, &["add", &to, "--to", &plugins, &user, &good]).status, 0);
    // and as docker knows it
    let auth = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("{USER}:{PASSWORD}"));
    let docker = Shell::new();
    fs::create_dir(docker.home.path().join(".docker")).unwrap();
    docker.file(".docker/config.json", json!({ "auths": { registry.host(): { "auth": auth } } }).to_string());
    let plugins = docker.plugins().display().to_string();
    let ran = run(&docker, &["add", &to, "--to", &plugins]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    for secret in [PASSWORD, "wrong-canary", &auth] {
        assert!(!said.contains(secret) && !docker.pins().contains(secret), "{said}");
    }
    // a password is never taken from the command line
    assert_eq!(shell.run(&["add", &to, "--to", &plugins, &user]).status, 2);
}

#[test]
fn over_tls_only_a_known_authority_is_believed() {
    // given
    let registry = OciRegistry::start(Kind::OverTls);
    let stranger = Shell::new();
    let friend = Shell::new().with("SSL_CERT_FILE", registry.authority().display().to_string());
    // when
    let published = friend.publish(&built("fixture_echo"), &registry.oci("echo:1"));
    // then
    stranger.refuses(&registry.oci("echo:1"), &[], &["cannot be reached", "certificate"]);
    friend.add(&registry.oci("echo:1"), &[]);
    // and by its https address, checked against a digest
    let digest = published["digest"].as_str().unwrap();
    let address = format!("https://{}/v2/echo/blobs/{digest}?token=canary", registry.host());
    stranger.refuses(&address, &["--name=web"], &["cannot be reached", "certificate"]);
    let wrong = format!("--digest=sha256:{}", "0".repeat(64));
    friend.refuses(&address, &["--name=web", &wrong], &["has the digest", digest]);
    let added = friend.add(&address, &["--name=web", &format!("--digest={digest}")]);
    assert_eq!(added["source"], address.split('?').next().unwrap(), "what may be a secret is not kept");
    assert!(!friend.pins().contains("canary"));
}

#[test]
fn what_cannot_be_taken_is_refused_with_its_reason() {
    let registry = OciRegistry::start(Kind::Plain);
    let shell = Shell::new();
    shell.publish(&built("fixture_echo"), &registry.oci("echo:1"));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let page = shell.file("page.wasm", "<html>no such file</html>").display().to_string();
    let core = shell.file("core.wasm", b"\0asm\x01\0\0\0").display().to_string();
    let cut = fs::read(built("fixture_echo")).unwrap();
    let cut = shell.file("cut.wasm", &cut[..cut.len() - 100]).display().to_string();
    let echo = built("fixture_echo").display().to_string();
    for (from, flags, says) in [
        (registry.oci("echo:2"), vec![], vec!["has no", "echo:2"]),
        (registry.oci("echo@sha256:") + &"0".repeat(64), vec![], vec!["has no"]),
        (registry.oci("echo:1"), vec!["--max-bytes=1000"], vec!["more than the 1000", "--max-bytes"]),
        (registry.oci("echo:1"), vec!["--name=Echo"], vec!["a-z, 0-9 and -"]),
        (format!("oci://{nobody}/echo:1"), vec![], vec!["cannot be reached"]),
        (format!("http://{nobody}/echo.wasm"), vec![], vec!["cannot be reached"]),
        (registry.url("/nothing.wasm"), vec![], vec!["status 404"]),
        ("http://192.0.2.1/echo.wasm".into(), vec![], vec!["https"]),
        ("oci://echo:1".into(), vec![], vec!["oci://HOST"]),
        ("s3://bucket/echo.wasm".into(), vec![], vec!["s3:// is not known"]),
        (page, vec![], vec!["not WebAssembly", "<html>"]),
        (core, vec![], vec!["core module", "wasm-tools component new"]),
        (cut, vec![], vec!["broken"]),
        ("nowhere.wasm".into(), vec![], vec!["nowhere.wasm", "No such file"]),
        (echo, vec!["--max-bytes=1000"], vec!["larger than 1000"]),
    ] {
        shell.refuses(&from, &flags, &says);
    }
    assert!(shell.listed().is_empty());
    // and a directory that holds the same plugin by another file name
    fs::write(shell.plugins().join("my_echo.wasm"), "x").unwrap();
    shell.refuses(&registry.oci("echo:1"), &["--name=my-echo"], &["my_echo.wasm", "the same plugin"]);
    // and grants that cannot be read are not written over
    fs::write(shell.plugins().join("plugins.toml"), "[plugins.echo\n").unwrap();
    shell.refuses(&registry.oci("echo:1"), &[], &["plugins.toml", "line 1"]);
    assert_eq!(shell.pins(), "[plugins.echo\n");
}

#[tokio::test]
async fn an_image_is_no_plugin() {
    // given: what `docker push` leaves in a registry
    let registry = OciRegistry::start(Kind::Plain);
    let mut blobs = vec![];
    for (kind, content) in
        [("application/vnd.oci.image.config.v1+json", "{}"), ("application/vnd.oci.image.layer.v1.tar", "x")]
    {
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(content)));
        let opened = client().post(registry.url("/v2/image/blobs/uploads/")).send().await.unwrap();
        let place = opened.headers()["location"].to_str().unwrap().to_owned();
        let put = client().put(format!("{place}&digest={digest}")).body(content).send().await.unwrap();
        assert_eq!(put.status(), 201);
        blobs.push(json!({ "mediaType": kind, "digest": digest, "size": content.len() }));
    }
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "config": blobs[0], "layers": [blobs[1]] });
    let put =
        client().put(registry.url("/v2/image/manifests/1")).header("content-type", kind).body(manifest.to_string());
    assert_eq!(put.send().await.unwrap().status(), 201);
    // when, then
    let says = ["no WebAssembly component", "image.config.v1+json", "image.layer.v1.tar", "application/wasm"];
    Shell::new().refuses(&registry.oci("image:1"), &[], &says);
}

#[test]
fn a_signature_travels_with_its_component_and_not_with_another() {
    // given
    let registry = OciRegistry::start(Kind::Plain);
    let shell = Shell::new();
    let signed = shell.file("echo.wasm", fs::read(built("fixture_echo")).unwrap());
    let signature = "untrusted comment: signature from a key\nRWQ=\ntrusted comment: t\nAAAA\n";
    shell.file("echo.wasm.minisig", signature);
    // when
    let published = shell.publish(&signed, &registry.oci("echo:1"));
    // then: from the registry, and from a file
    assert_eq!(published["signed"], true);
    let beside = shell.plugins().join("echo.wasm.minisig");
    assert_eq!(shell.add(&registry.oci("echo:1"), &[])["signed"], true);
    assert_eq!(fs::read_to_string(&beside).unwrap(), signature);
    shell.add(&signed.display().to_string(), &["--name=filed"]);
    assert_eq!(fs::read_to_string(shell.plugins().join("filed.wasm.minisig")).unwrap(), signature);
    // and one without a signature does not inherit the old one's
    fs::remove_file(shell.home.path().join("echo.wasm.minisig")).unwrap();
    shell.publish(&another_version(&shell, "fixture_echo"), &registry.oci("echo:1"));
    assert_eq!(shell.add(&registry.oci("echo:1"), &["--update"])["signed"], false);
    assert!(!beside.exists());
}

#[test]
fn adding_grants_nothing_and_says_what_is_asked_for() {
    // given
    let shell = Shell::new();
    let asks = built("examples/asks_ungranted").display().to_string();
    // when
    let added = shell.add(&asks, &[]);
    // then
    assert_eq!(added["name"], "asks-ungranted");
    assert_eq!(added["missing_grants"], json!([{ "import": "cyberos:plugin/spawn-cuo@1.0.0", "grant": "cuo = true" }]));
    assert!(!shell.pins().contains("cuo"), "{}", shell.pins());
    let to = shell.plugins().display().to_string();
    let page = shell.run(&["add", &asks, "--to", &to]);
    for text in [
        "Nothing was granted",
        "cuo = true",
        "plugins inspect asks-ungranted",
        "plugins grant asks-ungranted --import cuo",
    ] {
        assert!(page.out.contains(text), "{text:?} is not in\n{}", page.out);
    }
    // and what was granted is not asked for again
    fs::write(shell.plugins().join("plugins.toml"), format!("{}cuo = true\n", shell.pins())).unwrap();
    assert_eq!(shell.add(&asks, &[])["missing_grants"], json!([]));
    // and what no operator can grant is named as such
    let unknown = shell.add(&built("examples/imports_unknown").display().to_string(), &[]);
    assert_eq!(unknown["not_offered"], json!(["test:vault/vault@1.0.0"]));
}

/// Answers every request with these bytes and hangs up.
fn answers(bytes: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 4096];
            let _ = socket.read(&mut request);
            let _ = socket.write_all(bytes.as_bytes());
        }
    });
    address
}

#[test]
fn an_address_that_leads_astray_is_not_followed() {
    let shell = Shell::new();
    let leads = |to: &str| answers(format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"));
    let refused = |address: SocketAddr, says: &[&str]| {
        shell.refuses(&format!("http://{address}/echo.wasm"), &[], says);
    };
    refused(leads("http://192.0.2.1/echo.wasm"), &["redirected to http://192.0.2.1/echo.wasm", "only https"]);
    refused(leads("file:///etc/passwd"), &["refused", "only https"]);
    refused(leads("/again"), &["sixth redirect"]);
    refused(
        answers("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nshort".into()),
        &["broke off after 5 bytes of 1000"],
    );
    refused(answers(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 65 << 20)), &["larger than 67108864"]);
    refused(answers("HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n".into()), &["status 503"]);
    // A password goes to nobody whom the registry only names.
    let realm =
        "HTTP/1.1 401 No\r\nwww-authenticate: Bearer realm=\"http://192.0.2.1/token\"\r\ncontent-length: 0\r\n\r\n";
    let address = answers(realm.into());
    shell.refuses(&format!("oci://{address}/echo:1"), &[], &["http://192.0.2.1/token", "refused"]);
    // And a server that is no registry is named as one.
    let address = answers("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n".into());
    shell.refuses(&format!("oci://{address}/echo:1"), &[], &["not as an OCI registry", "404"]);
}
