//! A real OCI registry on loopback, with its storage in a temporary directory: plain, with passwords, or over TLS.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

use crate::setup::target;

pub const USER: &str = "alice";
pub const PASSWORD: &str = "s3cret-canary";
/// [`USER`] and [`PASSWORD`] in the one form that the registry reads (bcrypt).
const HTPASSWD: &str = "alice:$2b$04$OSlpZSXMoVnq0loi5Fdoau/8ry5NWSixyD8ztEnLjoRaBNEj11Wcy\n";

pub struct OciRegistry {
    home: TempDir,
    address: SocketAddr,
    child: Child,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    WithPasswords,
    OverTls,
}

impl OciRegistry {
    pub fn start(kind: Kind) -> OciRegistry {
        let home = TempDir::with_prefix("registry-").expect("a temporary directory");
        // Another test may take a free port before the registry does: then it ends, and is started on another.
        for _ in 0..5 {
            let address = free_address();
            fs::write(home.path().join("config.yml"), config(home.path(), address, kind)).expect("its configuration");
            let mut child = spawn(home.path());
            if answers(address, &mut child) {
                return OciRegistry { home, address, child };
            }
        }
        let log = fs::read_to_string(home.path().join("log")).unwrap_or_default();
        panic!("the registry does not start:\n{log}");
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// `oci://127.0.0.1:PORT/…`
    pub fn oci(&self, rest: &str) -> String {
        format!("oci://{}/{rest}", self.address)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The file in which it keeps a blob, `sha256:…`.
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.strip_prefix("sha256:").expect("a digest");
        self.home.path().join("storage/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }

    /// Whom a client of the one over TLS must trust.
    pub fn authority(&self) -> PathBuf {
        self.home.path().join("ca.pem")
    }
}

impl Drop for OciRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

fn config(home: &Path, address: SocketAddr, kind: Kind) -> String {
    let at = |name: &str| home.join(name).display().to_string();
    let mut text = format!(
        "version: 0.1\nlog: {{ level: warn }}\nstorage:\n  filesystem: {{ rootdirectory: {} }}\nhttp:\n  addr: {address}\n",
        at("storage")
    );
    match kind {
        Kind::Plain => {}
        Kind::WithPasswords => {
            fs::write(home.join("htpasswd"), HTPASSWD).expect("its passwords");
            text += &format!("auth:\n  htpasswd: {{ realm: tests, path: {} }}\n", at("htpasswd"));
        }
        Kind::OverTls => {
            certificates(home);
            text += &format!("  tls: {{ certificate: {}, key: {} }}\n", at("server.pem"), at("server.key"));
        }
    }
    text
}

fn spawn(home: &Path) -> Child {
    let unpacked = target().join("registry/usr/bin/docker-registry");
    let program = if unpacked.is_file() { unpacked } else { PathBuf::from("docker-registry") };
    let log = fs::File::create(home.join("log")).expect("a log");
    Command::new(program)
        .args(["serve", "config.yml"])
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .expect("docker-registry is there: run scripts/need-registry")
}

fn answers(address: SocketAddr, child: &mut Child) -> bool {
    let patience = Instant::now() + Duration::from_secs(30);
    while Instant::now() < patience {
        if child.try_wait().expect("a child can be waited for").is_some() {
            return false;
        }
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// An authority of this test's own, and a certificate of 127.0.0.1 that it signed.
pub fn certificates(home: &Path) {
    let openssl = |arguments: &[&str]| {
        let done = Command::new("openssl").args(arguments).current_dir(home).output().expect("openssl is there");
        assert!(done.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.pem"];
    openssl(&[authority.as_slice(), &key].concat());
    openssl(
        &[["req", "-new", "-subj", "/CN=127.0.0.1", "-keyout", "server.key", "-out", "server.csr"].as_slice(), &key]
            .concat(),
    );
    fs::write(home.join("names"), "subjectAltName=IP:127.0.0.1\n").expect("its names");
    let signed = ["x509", "-req", "-days", "2", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"];
    openssl(&[signed.as_slice(), &["-CAcreateserial", "-extfile", "names", "-out", "server.pem"]].concat());
}
