//! `tools call`: one call through the broker's whole pipeline, as the caller that a stdio client would be.

use serde_json::{Map, Value, json};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::app::{self, Bridge};
use crate::auth::{Caller, Confirming};
use crate::broker::Reply;
use crate::cli::out::{self, OutputArgs};
use crate::cli::progress::Bar;
use crate::cli::{serve, session};
use crate::config::SettingsArgs;
use crate::error::{Error, PublicError, Reason};
use crate::model::{CallContext, ClientPort, Content, ToolCall, ToolResult, Trace, TraceId};
use crate::store::{TaskOwner, TaskRow, TaskStatus};
use secrecy::ExposeSecret;

#[derive(clap::Args)]
#[command(after_help = "The caller is the one that CYBEROS_TOKEN or --token-file names, else the local user.\n\
    Exit status: 0 success, 1 the tool itself failed, 2 refused or invalid, 130 stopped by ^C.")]
pub struct Arguments {
    /// The tool's name, with dots or underscores.
    name: String,
    /// A JSON object: itself, @FILE, or - for standard input. Nothing stands for {}.
    #[arg(value_name = "JSON|@FILE|-")]
    arguments: Option<String>,
    /// Ask on this terminal whether a destructive call may go ahead.
    #[arg(long)]
    confirm: bool,
    /// A token from `confirm sign` for exactly this call.
    #[arg(long, value_name = "TOKEN", conflicts_with = "confirm")]
    confirmation: Option<String>,
}

/// `params._meta` key of a confirmation token (design section 6).
const CONFIRMATION_KEY: &str = "cyberos/confirmation_token";

pub async fn run(settings: SettingsArgs, arguments: Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let trace = Trace::start();
    let given = match arguments.arguments.as_deref().map(session::json_object).transpose() {
        Ok(given) => given.unwrap_or_default(),
        Err(error) => return Ok(out::refused(&error, &trace.id, output)),
    };
    let bridge = session::bridge(settings).await?;
    let caller = match bridge.identifier.for_stdio().await {
        Ok(caller) => caller,
        Err(error) => {
            bridge.stop().await;
            return Ok(out::refused(&error, &trace.id, output));
        }
    };
    let session = Session { bridge: &bridge, caller, output, stop: serve::stop_on_signal() };
    let code = session.call(&arguments, given, trace).await;
    bridge.stop().await;
    code
}

struct Session<'a> {
    bridge: &'a Bridge,
    caller: Caller,
    output: OutputArgs,
    /// Fires at ^C.
    stop: CancellationToken,
}

impl Session<'_> {
    async fn call(&self, arguments: &Arguments, given: Map<String, Value>, trace: Trace) -> anyhow::Result<ExitCode> {
        let token = arguments.confirmation.clone();
        let mut answer = self.ask_broker(&arguments.name, &given, token, trace).await;
        // Asked only once the call has passed every other gate: nobody is asked to confirm what cannot run.
        if arguments.confirm && reason(&answer) == Some(Reason::ConfirmationRequired) {
            answer = match self.ask_person(arguments, &given) {
                Ok(token) => self.ask_broker(&arguments.name, &given, Some(token), trace).await,
                Err(refusal) => Err(refusal),
            };
        }
        match answer {
            Ok(Reply::Result(result)) => self.print(&result),
            Ok(Reply::Task(row)) => self.follow(*row).await,
            Err(_) if self.stop.is_cancelled() => Ok(ExitCode::from(out::INTERRUPTED)),
            Err(error) => {
                let code = out::refused(&error, &trace.id, self.output);
                if error.reason() == Reason::ConfirmationRequired && !arguments.confirm {
                    eprintln!("Run it again with --confirm to be asked here.");
                }
                Ok(code)
            }
        }
    }

    async fn ask_broker(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        confirmation: Option<String>,
        trace: Trace,
    ) -> Result<Reply, Error> {
        let bar = Bar::when_reported(name);
        let mut meta = Map::new();
        if let Some(token) = confirmation {
            meta.insert(CONFIRMATION_KEY.into(), token.into());
        }
        let call = ToolCall {
            name: name.to_owned(),
            arguments: arguments.clone(),
            meta,
            task: None,
            context: CallContext {
                trace,
                request_id: None,
                cancel: self.stop.clone(),
                progress: bar.sink(),
                // Here a person is asked, or a token shown; nobody's word is taken for it.
                client: ClientPort::none(),
                host_may_confirm: false,
            },
        };
        self.bridge.broker.call_tool(&self.caller, call).await
    }

    /// A signed token for exactly this call, once the person at the terminal has said yes.
    fn ask_person(&self, asked: &Arguments, arguments: &Map<String, Value>) -> Result<String, Error> {
        let refuse = |what: &str| {
            Err(Error::new(Reason::ConfirmationRequired, what)
                .hint("Run it on a terminal, or pass --confirmation \"$(cyberos-mcp-bridge confirm sign …)\"."))
        };
        if asked.arguments.as_deref() == Some("-") {
            return refuse("Standard input holds the arguments, so nobody can be asked to confirm.");
        }
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return refuse("There is no terminal to ask for confirmation on.");
        }
        let entry = self.bridge.catalog.find(&asked.name).expect("the broker found it a moment ago");
        let shown = serde_json::to_string_pretty(arguments).expect("arguments are JSON");
        eprintln!("{} changes things for good:\n{}", entry.tool.name, out::printable(&shown));
        eprint!("Go ahead? [y/N] ");
        let mut answer = String::new();
        let _ = std::io::stderr().flush();
        let _ = std::io::stdin().read_line(&mut answer);
        if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Err(Error::new(Reason::UserDeclined, "You declined; nothing was done."));
        }
        let signer = app::confirmations(&self.bridge.settings).map_err(|why| {
            Error::new(Reason::Internal, "The confirmation key cannot be used.").hint("Run `doctor`.").detail(why)
        })?;
        let call = Confirming {
            tenant: self.caller.tenant(),
            subject: self.caller.subject(),
            tool: &entry.tool.name,
            arguments,
        };
        Ok(signer.sign(&call).expose_secret().to_owned())
    }

    /// A long-running call: wait for its end, show how far it is, cancel it at ^C.
    async fn follow(&self, row: TaskRow) -> anyhow::Result<ExitCode> {
        let bar = Bar::at_once(row.tool.as_str());
        let (owner, id) = (row.owner.clone(), row.id.clone());
        let mut row = row;
        let mut cancelled = false;
        while !row.status.has_ended() {
            tokio::select! {
                () = self.bridge.store.task_changed(owner.tenant, &id, row.updated_at, Duration::from_secs(5)) => {}
                () = self.stop.cancelled(), if !cancelled => {
                    cancelled = true;
                    self.cancel(&owner, id.as_str()).await;
                }
            }
            row = self.bridge.tasks.get(&owner, id.as_str()).await.map_err(app::operator)?;
            if let Some(progress) = row.progress.clone() {
                bar.show(&progress);
            }
        }
        drop(bar);
        match (row.status, row.output, row.error) {
            (TaskStatus::Cancelled, ..) if cancelled => {
                eprintln!("{}: the task {id} was cancelled", app::NAME);
                Ok(ExitCode::from(out::INTERRUPTED))
            }
            (_, Some(result), _) => self.print(&result),
            (_, None, Some(error)) => Ok(out::refused_publicly(&error, None, self.output)),
            // Somebody else's cancel.
            (_, None, None) => Ok(out::refused_publicly(&was_cancelled(&row.trace_id), None, self.output)),
        }
    }

    async fn cancel(&self, owner: &TaskOwner, id: &str) {
        match self.bridge.tasks.cancel(owner, id).await {
            // It ended in the same moment: its end is what counts.
            Err(error) if error.reason() != Reason::TaskEnded => {
                eprintln!("{}: the task {id} could not be cancelled: {error}", app::NAME);
            }
            _ => {}
        }
    }

    /// With `--json` as MCP clients get it; for people its text, which for structured results is JSON.
    fn print(&self, result: &ToolResult) -> anyhow::Result<ExitCode> {
        let failed = ExitCode::from(if result.is_error { out::NO } else { 0 });
        if self.output.json {
            let mut whole = json!({ "content": result.content, "isError": result.is_error });
            if let Some(structured) = &result.structured {
                whole["structuredContent"] = structured.clone();
            }
            out::json(&whole)?;
            return Ok(failed);
        }
        let shown = match &result.structured {
            Some(structured) => out::printable(&serde_json::to_string_pretty(structured)?),
            None => result.content.iter().map(block).collect::<Vec<_>>().join("\n"),
        };
        match result.is_error {
            true => eprintln!("{}: the tool failed\n{shown}", app::NAME),
            false => out::text(&shown)?,
        }
        Ok(failed)
    }
}

fn reason(answer: &Result<Reply, Error>) -> Option<Reason> {
    answer.as_ref().err().map(Error::reason)
}

fn was_cancelled(trace: &TraceId) -> PublicError {
    Error::new(Reason::Cancelled, "The task was cancelled.").public_view(trace)
}

fn block(content: &Content) -> String {
    match content {
        Content::Text { text, .. } => out::printable(text),
        Content::Image { mime_type, data, .. } => format!("[image {mime_type}, {} characters of base64]", data.len()),
        Content::Audio { mime_type, data, .. } => format!("[audio {mime_type}, {} characters of base64]", data.len()),
        Content::ResourceLink { uri, name, .. } => out::printable(&format!("[link {name}: {uri}]")),
        Content::Resource { resource, .. } => out::printable(&format!("[resource {}]", resource["uri"])),
    }
}
