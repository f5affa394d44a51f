//! `task-worker`: one stored task, run to its end in a process of its own, so that it outlives the client whose call
//! started it. The row in the store is all that it shares with anybody.

use std::process::ExitCode;

use super::serve::stop_on_signal;
use crate::app::{self, Bridge, TaskHome};
use crate::config::SettingsArgs;
use crate::model::TenantId;
use crate::store::TaskId;

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long)]
    tenant: uuid::Uuid,
    task: String,
}

pub async fn run(args: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let settings = app::settings(args)?;
    let id = TaskId::parse(&arguments.task).ok_or_else(|| anyhow::anyhow!("{:?} is not a task id", arguments.task))?;
    let telemetry = app::start_telemetry(&settings)?;
    let bridge = Bridge::start(settings, telemetry, TaskHome::Here).await?;
    let stop = stop_on_signal();
    let tasks = bridge.tasks.clone();
    tokio::select! {
        () = tasks.run(TenantId(arguments.tenant), &id) => {}
        () = stop.cancelled() => {}
    }
    bridge.stop().await;
    Ok(ExitCode::SUCCESS)
}
