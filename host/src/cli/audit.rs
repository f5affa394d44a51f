//! `audit`: one tenant's audit log, read straight from the store: what happened, and whether anybody changed it since.

mod tail;
mod verify;

use clap::Subcommand;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use uuid::Uuid;

use super::out::OutputArgs;
use super::session::{self, Archive};
use super::{out, serve};
use crate::app;
use crate::config::SettingsArgs;
use crate::model::TenantId;
use crate::store::{AuditFilter, AuditRow};
use anyhow::Context;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
    /// The tenant whose log it is; unless given, that of CYBEROS_TOKEN, or the local one.
    #[arg(long, value_name = "UUID", global = true)]
    tenant: Option<Uuid>,
}

#[derive(Subcommand)]
enum Command {
    /// The newest rows, oldest first.
    Tail(tail::Tail),
    /// Check the hash chain and name the first bad row. Exit status 1 when there is one.
    Verify(verify::Verify),
    /// Every row as JSON, one a line, for `audit verify --file` and for other programs.
    Export {
        /// A new file (mode 0600) instead of standard output.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// The end of the chain as JSON. Keep it somewhere else: `audit verify --checkpoint` then sees lost and rewritten rows.
    Checkpoint,
}

pub async fn run(args: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    // An export is checked on any machine, also where there is no store.
    if let Command::Verify(verify) = &arguments.command
        && let Some(file) = &verify.file
    {
        return verify::file(file, verify.checkpoint()?.as_ref(), output);
    }
    let archive = session::archive(args).await?;
    let tenant = match (arguments.tenant, &arguments.command) {
        (Some(tenant), _) => TenantId(tenant),
        // The checkpoint says whose chain it ends.
        (None, Command::Verify(verify)) if verify.checkpoint.is_some() => {
            verify.checkpoint()?.expect("it was just seen").tenant_id
        }
        _ => session::caller(&archive.settings).await?.tenant(),
    };
    let log = Log { archive, tenant };
    let code = match &arguments.command {
        Command::Tail(tail) => tail.run(&log, output, serve::stop_on_signal()).await,
        Command::Verify(verify) => verify::store(&log, verify.checkpoint()?.as_ref(), output).await,
        Command::Export { out } => export(&log, out.as_deref()).await,
        Command::Checkpoint => checkpoint(&log).await,
    };
    log.archive.store.close().await;
    code
}

/// One tenant's rows.
struct Log {
    archive: Archive,
    tenant: TenantId,
}

/// Rows of one read; a chain of any length needs no more memory than this.
const PAGE: u32 = 500;

impl Log {
    async fn page(&self, filter: AuditFilter) -> anyhow::Result<Vec<AuditRow>> {
        self.archive.store.read_audit(self.tenant, &filter).await.map_err(app::operator)
    }

    /// Hand every row to `each`, in order, until it says stop.
    async fn walk(&self, mut each: impl FnMut(AuditRow) -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let mut since = 0;
        loop {
            let rows = self.page(AuditFilter { since_seq: Some(since), limit: PAGE, ..AuditFilter::default() }).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            since = last.seq;
            for row in rows {
                if !each(row)? {
                    return Ok(());
                }
            }
        }
    }
}

async fn export(log: &Log, path: Option<&Path>) -> anyhow::Result<ExitCode> {
    let mut writer: Box<dyn Write> = match path {
        None => Box::new(BufWriter::new(std::io::stdout().lock())),
        Some(path) => {
            // Somebody's evidence may be under that name already.
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            Box::new(BufWriter::new(file.with_context(|| format!("{} cannot be created", path.display()))?))
        }
    };
    let mut rows = 0u64;
    let mut write = |row: AuditRow| -> anyhow::Result<bool> {
        serde_json::to_writer(&mut writer, &row).map_err(std::io::Error::from)?;
        writer.write_all(b"\n")?;
        rows += 1;
        Ok(true)
    };
    log.walk(&mut write).await?;
    writer.flush()?;
    if path.is_some() {
        eprintln!("{rows} rows of tenant {}", log.tenant);
    }
    Ok(ExitCode::SUCCESS)
}

async fn checkpoint(log: &Log) -> anyhow::Result<ExitCode> {
    match log.archive.store.audit_head(log.tenant).await.map_err(app::operator)? {
        Some(head) => out::json(&head).map(|()| ExitCode::SUCCESS),
        None => anyhow::bail!("tenant {} has no audit row yet, so there is no end to keep", log.tenant),
    }
}
