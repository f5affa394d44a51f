//! `--username` with a password from a file or from stdin: never from the command line, which other users can read.

use anyhow::Context;
use secrecy::SecretString;
use std::io::Read;
use std::path::PathBuf;

use crate::author::login::Login;

/// Longer than any token that a registry hands out.
const MAX_PASSWORD: u64 = 64 << 10;

#[derive(clap::Args)]
pub struct LoginArgs {
    /// User name at the registry. Without it, docker's config.json says who you are there; without an entry, nobody.
    #[arg(long, env = "CYBEROS_REGISTRY_USERNAME", requires = "how")]
    username: Option<String>,
    #[command(flatten)]
    password: Password,
}

#[derive(clap::Args)]
#[group(id = "how", multiple = false, required = false)]
struct Password {
    /// A file with the password or access token.
    #[arg(long, env = "CYBEROS_REGISTRY_PASSWORD_FILE", value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Read the password or access token from standard input.
    #[arg(long)]
    password_stdin: bool,
}

impl LoginArgs {
    /// What was passed, else docker's word on this registry. `registry`: none for addresses outside registries, where
    /// nothing but what was passed is sent.
    pub fn login(self, registry: Option<&str>) -> anyhow::Result<Login> {
        match (self.username, registry) {
            (Some(username), _) => Ok(Login::Basic { username, password: self.password.read()? }),
            (None, Some(registry)) => Ok(Login::from_docker(registry)?),
            (None, None) => Ok(Login::Anonymous),
        }
    }
}

impl Password {
    fn read(self) -> anyhow::Result<SecretString> {
        let mut text = String::new();
        match self.password_file {
            Some(path) => {
                let file = std::fs::File::open(&path).with_context(|| format!("--password-file {}", path.display()))?;
                file.take(MAX_PASSWORD).read_to_string(&mut text).context("--password-file")?
            }
            None => std::io::stdin().take(MAX_PASSWORD).read_to_string(&mut text).context("--password-stdin")?,
        };
        let password = text.trim_end_matches(['\r', '\n']);
        anyhow::ensure!(!password.is_empty(), "the password is empty");
        Ok(SecretString::from(password))
    }
}
