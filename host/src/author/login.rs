//! Who we are to a registry: what was passed, else docker's `config.json`, else nobody. Nothing here prints.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oci_client::secrets::RegistryAuth;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::config::read_environment;

#[derive(Clone, Default)]
pub enum Login {
    #[default]
    Anonymous,
    Basic {
        username: String,
        password: SecretString,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("{}: {why}", .path.display())]
    Config { path: PathBuf, why: String },
}

/// The part of docker's file that is read. Credential helpers are programs; they are not run.
#[derive(Deserialize, Default)]
#[serde(default)]
struct DockerConfig {
    auths: HashMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

impl Login {
    /// From `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`. A file that is not there is nobody's login; one
    /// that cannot be read is an error.
    pub fn from_docker(registry: &str) -> Result<Login, LoginError> {
        let beside = |directory: PathBuf| directory.join("config.json");
        let path = read_environment("DOCKER_CONFIG")
            .map(|directory| beside(directory.into()))
            .or_else(|| read_environment("HOME").map(|home| beside(Path::new(&home).join(".docker"))));
        match path.filter(|path| path.exists()) {
            Some(path) => Self::from_file(&path, registry),
            None => Ok(Login::Anonymous),
        }
    }

    fn from_file(path: &Path, registry: &str) -> Result<Login, LoginError> {
        let bad = |why: &str| LoginError::Config { path: path.to_owned(), why: why.to_owned() };
        let text = std::fs::read_to_string(path).map_err(|e| bad(&format!("cannot be read: {e}")))?;
        // The parser's own message would quote the file.
        let config: DockerConfig = serde_json::from_str(&text)
            .map_err(|e| bad(&format!("is not docker's JSON (line {}, column {})", e.line(), e.column())))?;
        let entry = config.auths.iter().find(|(key, _)| host_of(key) == registry).map(|(_, entry)| entry);
        match entry {
            Some(Entry { username: Some(username), password: Some(password), .. }) => {
                Ok(Login::Basic { username: username.clone(), password: SecretString::from(password.as_str()) })
            }
            Some(Entry { auth: Some(auth), .. }) => {
                pair(auth).ok_or_else(|| bad(&format!("auths: the entry of {registry} is not base64 of user:password")))
            }
            _ => Ok(Login::Anonymous),
        }
    }

    pub(super) fn is_anonymous(&self) -> bool {
        matches!(self, Login::Anonymous)
    }

    /// For the library that speaks to registries.
    pub(super) fn registry_auth(&self) -> RegistryAuth {
        match self {
            Login::Anonymous => RegistryAuth::Anonymous,
            Login::Basic { username, password } => {
                RegistryAuth::Basic(username.clone(), password.expose_secret().to_owned())
            }
        }
    }

    /// `Basic …`, marked so that it is not printed.
    pub(super) fn basic_header(&self) -> Option<http::HeaderValue> {
        let Login::Basic { username, password } = self else { return None };
        let text = format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.expose_secret())));
        let mut value = http::HeaderValue::from_str(&text).expect("base64 is ASCII");
        value.set_sensitive(true);
        Some(value)
    }
}

/// Keys are hosts, or addresses such as `https://index.docker.io/v1/`.
fn host_of(key: &str) -> &str {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

fn pair(auth: &str) -> Option<Login> {
    let decoded = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (username, password) = decoded.split_once(':')?;
    Some(Login::Basic { username: username.to_owned(), password: SecretString::from(password) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(text: &str, registry: &str) -> Result<Login, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Login::from_file(file.path(), registry).map_err(|e| e.to_string())
    }

    #[test]
    fn dockers_file_is_read_by_host_and_never_quoted() {
        let text = r#"{"auths":{"https://ghcr.io/v2/":{"auth":"YWxpY2U6czpjcmV0"},"127.0.0.1:5000":{"auth":"!canary!"}},"credsStore":"x"}"#;
        match login(text, "ghcr.io").unwrap() {
            Login::Basic { username, password } => {
                assert_eq!((username.as_str(), password.expose_secret()), ("alice", "s:cret"));
            }
            Login::Anonymous => panic!("ghcr.io has an entry"),
        }
        assert!(login(text, "example.com").unwrap().is_anonymous());
        for broken in [text, r#"{"auths": canary"#, r#"{"auths":{"a":"canary"}}"#] {
            let error = login(broken, "127.0.0.1:5000").err().expect("it is refused");
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
