//! What a one-shot command works with: a bridge in this process, or just its store, and for whom it acts.

use anyhow::Context;
use std::sync::Arc;
use uuid::Uuid;

use crate::app::{self, Bridge, TaskHome};
use crate::auth::{Caller, Clock, Identifier};
use crate::config::{Settings, SettingsArgs};
use crate::error::{Error, Reason};
use crate::model::TenantId;
use crate::store::{Store, TaskOwner};

/// A whole bridge: for commands that call tools or need what tools say of themselves.
pub async fn bridge(args: SettingsArgs) -> anyhow::Result<Bridge> {
    let settings = app::settings(args)?;
    let telemetry = app::start_telemetry(&settings)?;
    // Components that are not served are named in the log, on stderr.
    Bridge::start(settings, telemetry, TaskHome::Here).await
}

/// The store alone: for commands that only read rows, and must work when the sandbox does not.
pub struct Archive {
    pub settings: Settings,
    pub store: Arc<dyn Store>,
}

pub async fn archive(args: SettingsArgs) -> anyhow::Result<Archive> {
    let settings = app::settings(args)?;
    let store = app::open_store(&settings).await?;
    Ok(Archive { settings, store })
}

/// The caller that a stdio client of the same settings would be: the token's, or the local user.
pub async fn caller(settings: &Settings) -> anyhow::Result<Caller> {
    let identifier = Identifier::new(&app::auth_settings(settings)?, Clock::system())?;
    identifier.for_stdio().await.map_err(app::operator).context("the caller is not known")
}

/// Whose rows and calls a command is about.
#[derive(Clone, Debug, clap::Args)]
pub struct WhoArgs {
    /// Act for this tenant instead of the caller that CYBEROS_TOKEN names, or the local user.
    #[arg(long, value_name = "UUID", requires = "subject", global = true)]
    tenant: Option<Uuid>,
    /// The tenant's user, as in the token's `sub`.
    #[arg(long, requires = "tenant", global = true)]
    subject: Option<String>,
}

impl WhoArgs {
    pub async fn owner(&self, settings: &Settings) -> anyhow::Result<TaskOwner> {
        match (self.tenant, &self.subject) {
            (Some(tenant), Some(subject)) => Ok(TaskOwner { tenant: TenantId(tenant), subject: subject.clone() }),
            _ => Ok(caller(settings).await?.task_owner()),
        }
    }
}

/// A JSON object from the command line: itself, `@FILE`, or `-` for standard input.
pub fn json_object(argument: &str) -> Result<serde_json::Map<String, serde_json::Value>, Error> {
    let unreadable = |what: &str, why: std::io::Error| {
        Error::new(Reason::InvalidParams, format!("{what} cannot be read: {why}."))
            .hint("Pass a JSON object, @FILE, or - for standard input.")
    };
    let text = match argument.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|why| unreadable(path, why))?,
        None if argument == "-" => {
            std::io::read_to_string(std::io::stdin()).map_err(|why| unreadable("Standard input", why))?
        }
        None => argument.to_owned(),
    };
    serde_json::from_str(&text).map_err(|why| {
        Error::new(Reason::InvalidParams, format!("The arguments are not a JSON object: {why}."))
            .hint("Write them as '{\"key\": \"value\"}', in single quotes so that the shell leaves them alone.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_from_the_line_or_a_file_and_nothing_but_an_object_will_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{\"a\": 1}").unwrap();
        for given in ["{\"a\": 1}".to_owned(), format!("@{}", file.path().display())] {
            assert_eq!(json_object(&given).unwrap()["a"], 1);
        }
        for wrong in ["[1]", "a=1", "", "@/no/such/file"] {
            assert_eq!(json_object(wrong).unwrap_err().reason(), Reason::InvalidParams, "{wrong}");
        }
    }
}
