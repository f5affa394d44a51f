//! A request in words, for operators. A line for each thing; every name in it was checked when it was read.

use super::{Access, Request, Upstream};
use crate::plugins::edit::Import;

/// In one line of a log or of a reason.
const MAX_ITEMS: usize = 40;
const MAX_ITEM_CHARS: usize = 200;

impl Request {
    /// Nothing is an empty list.
    pub fn lines(&self) -> Vec<String> {
        let access = |access: &Access| match access {
            Access::Read => "read",
            Access::ReadWrite => "read and write",
        };
        let mut lines: Vec<String> =
            self.upstreams.iter().map(|(name, upstream)| format!("upstream {name}: {}", upstream.words())).collect();
        lines.extend(self.directories.iter().map(|(path, may)| format!("directory {path}: {}", access(may))));
        lines.extend(self.imports.iter().map(|import| import.words().to_owned()));
        lines.extend(self.environment.iter().map(|name| format!("variable {name}")));
        lines.extend(self.config.iter().map(|name| format!("setting {name}")));
        lines.extend(self.limits.iter().map(|(name, value)| format!("limit {name} = {value}")));
        if self.any_tool_name {
            lines.push("tool names outside cyberos.<module>.<verb>".into());
        }
        lines
    }

    /// The same in one line.
    pub fn summary(&self) -> String {
        let mut lines = self.lines();
        if let Some(more) = lines.len().checked_sub(MAX_ITEMS).filter(|more| *more > 0) {
            lines.truncate(MAX_ITEMS);
            lines.push(format!("and {more} more, which `plugins inspect` shows"));
        }
        let short = |line: &String| match line.char_indices().nth(MAX_ITEM_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.clone(),
        };
        lines.iter().map(short).collect::<Vec<_>>().join("; ")
    }
}

impl Upstream {
    fn words(&self) -> String {
        let list = |items: &std::collections::BTreeSet<String>, between| {
            items.iter().map(String::as_str).collect::<Vec<_>>().join(between)
        };
        let reach = [list(&self.methods, "|"), self.url.clone().unwrap_or_default(), list(&self.paths, " ")];
        let reach: Vec<String> = reach.into_iter().filter(|part| !part.is_empty()).collect();
        let mut parts: Vec<String> = vec![reach.join(" ")];
        parts.retain(|part| !part.is_empty());
        if self.allow_private {
            parts.push("private addresses too".into());
        }
        if let Some(secret) = &self.secret {
            let name = secret.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            parts.push(format!("a secret{name} in {}", secret.header));
        }
        parts.extend(self.limits.iter().map(|(name, value)| format!("{name} = {value}")));
        parts.join(", ")
    }
}

impl Import {
    pub fn words(self) -> &'static str {
        match self {
            Import::Cuo => "CUO supervisor",
            Import::AuditAppend => "append to the caller's audit log",
            Import::AuditRead => "read the caller's audit log",
            Import::Elicit => "ask the caller's user",
            Import::Sample => "ask the caller's model",
            Import::ResourceUpdates => "say of any resource that it changed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn a_request_reads_as_a_list_of_what_could_be_reached() {
        let asked = sample(
            r#"
sample = true
config = { units = "metric" }
limits = { fuel = 5_000_000_000 }
[plugins.w.upstreams.api]
url = "https://api.example.com"
methods = ["POST", "GET"]
paths = ["/v1/*", "/v2/**"]
allow_private = true
credential = { header = "X-Api-Key", secret = "keyring:weather" }
[plugins.w.directories."/data"]
host_path = "/srv"
"#,
        );
        assert_eq!(
            asked.lines(),
            [
                "upstream api: GET|POST https://api.example.com /v1/* /v2/**, private addresses too, a secret (weather) in x-api-key",
                "directory /data: read",
                "ask the caller's model",
                "setting units",
                "limit fuel = 5000000000",
            ]
        );
        let more = sample(
            "[plugins.w.upstreams.api]\nurl = \"https://api.example.com\"\nmethods = [\"GET\"]\npaths = [\"/v1/*\"]\n",
        );
        assert_eq!(
            asked.beyond(&more).lines()[0],
            "upstream api: POST /v2/**, private addresses too, a secret (weather) in x-api-key"
        );
    }

    #[test]
    fn a_long_list_is_cut_for_a_log() {
        let names: String = (0..60).map(|n| format!("s{n} = \"\", ")).collect();
        let summary = sample(&format!("config = {{ {} }}", names.trim_end_matches(", "))).summary();
        assert!(summary.ends_with("and 20 more, which `plugins inspect` shows"), "{summary}");
    }
}
