//! A tool's permission label, as a package has its list of ingredients: what its component asks for, what it was
//! granted, and how much of it. Credentials are named by their place, never shown.

use serde_json::{Value, json};

use crate::broker::Entry;
use crate::cli::out;
use crate::config::{Grants, Limits, UpstreamGrant};
use crate::plugins::Request;
use crate::plugins::edit::Import;

pub fn text(entry: &Entry) -> String {
    let plugin = &entry.plugin;
    let mut fields = vec![
        ("plugin", plugin.id().to_string()),
        ("sha256", plugin.digest().to_owned()),
        ("imports", or_none(imports(plugin.imports()))),
    ];
    fields.extend(granted(plugin.grants()));
    out::fields(&fields)
}

fn or_none(items: Vec<String>) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join("\n") }
}

/// What these grants allow, whatever the component asks for.
pub fn granted(grants: &Grants) -> Vec<(&'static str, String)> {
    vec![
        ("network", or_none(grants.upstreams.iter().map(|(name, upstream)| network(name, upstream)).collect())),
        ("files", or_none(files(grants))),
        ("services", or_none(services(grants).into_iter().map(str::to_owned).collect())),
        ("environment", or_none(grants.environment.keys().cloned().collect())),
        ("settings", or_none(grants.config.keys().cloned().collect())),
        ("limits", limits(&grants.limits)),
    ]
}

/// What these grants let a plugin reach, a line each; nothing, where they grant nothing. Limits are left out.
pub fn asked(grants: &Grants) -> Vec<String> {
    let mut lines: Vec<String> = grants.upstreams.iter().map(|(name, upstream)| network(name, upstream)).collect();
    lines.extend(files(grants));
    lines.extend(services(grants).into_iter().map(str::to_owned));
    lines.extend(grants.environment.keys().map(|name| format!("the environment variable {name}")));
    lines.extend(grants.config.keys().map(|name| format!("the setting {name}")));
    lines
}

pub fn json(entry: &Entry) -> Value {
    let plugin = &entry.plugin;
    let mut label = json!({ "plugin": plugin.id(), "sha256": plugin.digest(), "imports": plugin.imports() });
    let granted = granted_json(plugin.grants());
    label.as_object_mut().expect("it is one").extend(granted.as_object().cloned().unwrap_or_default());
    label
}

/// The same for scripts. Secrets are named by their place.
pub fn granted_json(grants: &Grants) -> Value {
    let limits = &grants.limits;
    let upstreams = grants.upstreams.iter().map(|(name, upstream)| {
        json!({
            "name": name,
            "url": upstream.url,
            "methods": upstream.methods,
            "paths": upstream.paths,
            "allow_private": upstream.allow_private,
            "max_request_bytes": upstream.max_request_bytes,
            "max_response_bytes": upstream.max_response_bytes,
            "credential_header": upstream.credential.as_ref().map(|credential| &credential.header),
            "secret": upstream.credential.as_ref().map(|credential| &credential.secret),
        })
    });
    let directories = grants.directories.iter().map(
        |(guest, directory)| json!({ "path": guest, "host_path": directory.host_path, "writable": directory.writable }),
    );
    json!({
        "upstreams": upstreams.collect::<Vec<_>>(),
        "directories": directories.collect::<Vec<_>>(),
        "services": services(grants),
        "environment": grants.environment.keys().collect::<Vec<_>>(),
        "config": grants.config.keys().collect::<Vec<_>>(),
        "limits": {
            "fuel": limits.fuel,
            "deadline_ms": limits.deadline_ms,
            "memory_bytes": limits.memory_bytes,
            "table_elements": limits.table_elements,
            "output_bytes": limits.output_bytes,
            "host_calls": limits.host_calls,
            "host_call_bytes": limits.host_call_bytes,
            "log_bytes": limits.log_bytes,
            "concurrency": limits.concurrency,
            "memory_share_bytes": limits.memory_share_bytes,
            "failures_in_a_row": limits.failures_in_a_row,
        },
    })
}

/// The host's own interfaces one by one; of WASI, which every language runtime imports whole, the packages.
fn imports(all: Vec<String>) -> Vec<String> {
    let (wasi, mut own): (Vec<String>, Vec<String>) = all.into_iter().partition(|name| name.starts_with("wasi:"));
    let mut packages: Vec<&str> = wasi.iter().filter_map(|name| name.split('/').next()).collect();
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        own.push(format!("{} (linked, and empty but for what is granted below)", packages.join(", ")));
    }
    own
}

fn network(name: &str, upstream: &UpstreamGrant) -> String {
    let credential = match &upstream.credential {
        Some(credential) => format!(", the host adds {} from {}", credential.header, credential.secret),
        None => String::new(),
    };
    let private = if upstream.allow_private { ", private addresses too" } else { "" };
    let (methods, paths) = (upstream.methods.join("|"), upstream.paths.join(" "));
    format!("{name}: {methods} {} {paths}{private}{credential}", upstream.url)
}

fn files(grants: &Grants) -> Vec<String> {
    let directory = |(guest, directory): (&String, &crate::config::DirectoryGrant)| {
        let may = if directory.writable { "read and write" } else { "read" };
        format!("{guest}: {may} {}", directory.host_path.display())
    };
    grants.directories.iter().map(directory).collect()
}

fn services(grants: &Grants) -> Vec<&'static str> {
    Request::of(grants).imports.into_iter().map(Import::words).collect()
}

fn limits(limits: &Limits) -> String {
    [
        format!(
            "{} million units of fuel and {} a call",
            limits.fuel / 1_000_000,
            out::duration(limits.deadline_ms as i64)
        ),
        format!(
            "{} of memory, {} of result, {} of log",
            size(limits.memory_bytes),
            size(limits.output_bytes),
            size(limits.log_bytes)
        ),
        format!("{} host calls of at most {}", limits.host_calls, size(limits.host_call_bytes)),
        format!("{} calls at once, with {} together", limits.concurrency, size(limits.memory_share_bytes)),
        match limits.failures_in_a_row {
            0 => "never rests".into(),
            failures => format!("rests after {failures} failures in a row"),
        },
    ]
    .join("\n")
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
