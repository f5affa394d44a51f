//! `plugin check`: what a host would say of a component.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use super::target::{Target, bytes, fuel, start_log};
use crate::author::case::Case;
use crate::author::check::{self, Finding, Level, Report};
use crate::cli::out::{self, OutputArgs, printable};
use crate::cli::progress::Bar;
use crate::config::SettingsArgs;

#[derive(clap::Args)]
#[command(
    after_help = "Nothing of the component runs with anything granted; tools that change something are not called at all.\n\
    Exit status: 0 a host serves it, 1 a host refuses it (with --strict: or would rather not), 2 it could not be looked at."
)]
pub struct Arguments {
    /// A component, or a project's directory.
    #[arg(value_name = "FILE.wasm|DIR", default_value = ".")]
    path: PathBuf,
    /// Warnings count as errors.
    #[arg(long)]
    strict: bool,
}

pub async fn run(settings: SettingsArgs, arguments: Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    start_log(&settings.log)?;
    let target = Target::find(&arguments.path).await?;
    // They give arguments for first calls; whether they are well written, `plugin test` says.
    let cases = Case::read_all(&target.cases).unwrap_or_default();
    let bar = Bar::at_once("compiling");
    let report = check::check(&target.id, &target.wasm, &cases).await?;
    drop(bar);
    match output.json {
        true => out::json(&report)?,
        false => out::text(&text(&report))?,
    }
    let (errors, warnings) = (report.count(Level::Error), report.count(Level::Warning));
    let good = errors == 0 && (warnings == 0 || !arguments.strict);
    Ok(ExitCode::from(if good { 0 } else { out::NO }))
}

fn text(report: &Report) -> String {
    let mut fields = vec![("plugin", report.plugin.to_string()), ("size", bytes(report.bytes))];
    if !report.sha256.is_empty() {
        fields.push(("sha256", report.sha256.clone()));
        fields.push(("world", report.world.clone().unwrap_or_else(|| "none of cyberos:plugin".into())));
        fields.push(("imports", imports(report)));
        fields.push(("asks for", asks(report)));
        fields.push(("compiled in", format!("{:.0} ms", report.compile.as_secs_f64() * 1e3)));
        fields.push((
            "described with",
            format!(
                "{} of {} fuel, {}",
                fuel(report.describe_fuel),
                fuel(report.describe_fuel_most),
                bytes(report.describe_memory_bytes)
            ),
        ));
    }
    if !report.made_with.is_empty() {
        fields.push(("made with", report.made_with.join("\n")));
    }
    let offered = [("prompts", report.prompts), ("resources", report.resources), ("templates", report.templates)];
    fields.extend(offered.into_iter().filter(|(_, count)| *count > 0).map(|(what, count)| (what, count.to_string())));
    let mut parts = vec![out::fields(&fields)];
    if !report.tools.is_empty() {
        parts.push(tools(report));
    }
    if !report.findings.is_empty() {
        parts.push(report.findings.iter().map(finding).collect::<Vec<_>>().join("\n"));
    }
    let count = |level, what: &str| match report.count(level) {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    };
    let counts =
        [count(Level::Error, "error"), count(Level::Warning, "warning"), count(Level::Note, "note")].join(", ");
    parts.push(match report.count(Level::Error) {
        0 => format!("A host serves it. {counts}."),
        _ => format!("A host refuses it. {counts}."),
    });
    parts.join("\n\n")
}

fn asks(report: &Report) -> String {
    match &report.asks {
        None => "it does not say".into(),
        Some(asks) if asks.is_empty() => "nothing".into(),
        Some(asks) => asks.lines().join("\n"),
    }
}

/// The host's own interfaces one by one; of WASI, which every language runtime imports whole, the packages.
fn imports(report: &Report) -> String {
    let mut lines = vec![];
    let mut packages = BTreeSet::new();
    for import in &report.imports {
        match (import.grant, import.interface.strip_prefix("wasi:").and_then(|wasi| wasi.split_once('/'))) {
            (None, Some((package, interface))) => {
                let version = interface.split_once('@').map_or("", |(_, version)| version);
                packages.insert(format!("wasi:{package}@{version}"));
            }
            (None, None) => lines.push(import.interface.clone()),
            (Some(grant), _) => lines.push(format!("{} (needs {grant})", import.interface)),
        }
    }
    if !packages.is_empty() {
        lines.push(packages.into_iter().collect::<Vec<_>>().join(", "));
    }
    if lines.is_empty() { "none".into() } else { lines.join("\n") }
}

fn tools(report: &Report) -> String {
    let rows = report.tools.iter().map(|tool| {
        let call = report.first_calls.iter().find(|call| call.tool == tool.name);
        let cost = match call {
            Some(call) => {
                let ended = call.error.as_ref().map_or(String::new(), |error| format!(", {error}"));
                format!("{} fuel, {:.1} ms, {}{ended}", fuel(call.fuel), call.time_ms, bytes(call.memory_bytes))
            }
            None => "not called".into(),
        };
        [tool.name.clone(), tool.effect.to_owned(), tool.scopes.join(" "), cost]
    });
    out::table(["tool", "effect", "scopes", "first call"], rows)
}

fn finding(finding: &Finding) -> String {
    let level = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    };
    let says = finding.says.trim_end_matches('.');
    printable(&format!("{level:7}  {}: {says}.\n         {}", finding.about, finding.fix))
}
