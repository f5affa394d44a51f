//! What of one request another does not hold. Pure: files, approvals and consequences are others'.
//!
//! The rules, which docs/operators/plugins.md repeats: an upstream by its name, and another address under the same name is
//! another upstream; each method and path by itself, a path being held when one pattern covers it; any credential where
//! one is asked for; a directory by its path, writable above readable; names of settings and variables; limits by size.

use std::collections::{BTreeMap, BTreeSet};

use super::{Request, Upstream};

impl Request {
    pub fn is_empty(&self) -> bool {
        *self == Request::default()
    }

    /// What of this the other does not hold.
    pub fn beyond(&self, held: &Request) -> Request {
        let upstreams = self.upstreams.iter().filter_map(|(name, asked)| {
            let beyond = match held.upstreams.get(name) {
                Some(held) => asked.beyond(held),
                None => asked.clone(),
            };
            (beyond != Upstream::default()).then(|| (name.clone(), beyond))
        });
        let directories =
            self.directories.iter().filter(|(path, asked)| held.directories.get(*path).is_none_or(|held| held < asked));
        Request {
            upstreams: upstreams.collect(),
            imports: self.imports.difference(&held.imports).copied().collect(),
            directories: directories.map(|(path, access)| (path.clone(), *access)).collect(),
            environment: without(&self.environment, &held.environment),
            config: without(&self.config, &held.config),
            limits: larger(&self.limits, &held.limits),
            any_tool_name: self.any_tool_name && !held.any_tool_name,
        }
    }
}

impl Upstream {
    fn beyond(&self, held: &Upstream) -> Upstream {
        if self.url.is_some() && self.url != held.url {
            return self.clone();
        }
        let covered = |path: &&String| held.paths.iter().any(|pattern| covers(pattern, path));
        Upstream {
            url: None,
            methods: without(&self.methods, &held.methods),
            paths: self.paths.iter().filter(|path| !covered(path)).cloned().collect(),
            allow_private: self.allow_private && !held.allow_private,
            // Whose header and whose scheme it goes into, the operator knows.
            secret: self.secret.clone().filter(|_| held.secret.is_none()),
            limits: larger(&self.limits, &held.limits),
        }
    }
}

fn without(asked: &BTreeSet<String>, held: &BTreeSet<String>) -> BTreeSet<String> {
    asked.difference(held).cloned().collect()
}

/// Where nothing is held, the default is, and what is asked for is over it.
fn larger(asked: &BTreeMap<String, u64>, held: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let more = asked.iter().filter(|(name, value)| held.get(*name).is_none_or(|held| held < *value));
    more.map(|(name, value)| (name.clone(), *value)).collect()
}

/// Does every path of the one pattern fit the other? It may say no where several patterns together would do.
fn covers(granted: &str, asked: &str) -> bool {
    let rest = |pattern: &str| pattern.strip_suffix("/**").map(str::to_owned);
    let (granted_rest, asked_rest) = (rest(granted), rest(asked));
    let granted: Vec<&str> = granted_rest.as_deref().unwrap_or(granted).split('/').collect();
    let asked: Vec<&str> = asked_rest.as_deref().unwrap_or(asked).split('/').collect();
    let fits = |(granted, asked): (&&str, &&str)| granted == asked || (*granted == "*" && !asked.is_empty());
    if asked.len() < granted.len() || !granted.iter().zip(&asked).all(fits) {
        return false;
    }
    let longer = asked.len() > granted.len() || asked_rest.is_some();
    granted_rest.is_some() == longer
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_path_is_held_when_one_pattern_covers_it() {
        for (granted, asked, held) in [
            ("/v1/notes", "/v1/notes", true),
            ("/v1/*", "/v1/notes", true),
            ("/v1/*", "/v1/*", true),
            ("/v1/**", "/v1/*", true),
            ("/v1/**", "/v1/*/tags", true),
            ("/v1/**", "/v1/**", true),
            ("/**", "/v1/**", true),
            ("/*/tags", "/v1/tags", true),
            ("/v1/notes", "/v1/*", false),
            ("/v1/*", "/v1/**", false),
            ("/v1/*", "/v1/a/b", false),
            ("/v1/**", "/v1", false),
            ("/v1/**", "/v2/**", false),
            ("/v1/a/**", "/v1/**", false),
            ("/*/tags", "/v1/*", false),
            ("/v1/*", "/v1/", false),
        ] {
            assert_eq!(covers(granted, asked), held, "{granted} covers {asked}");
        }
    }

    const ASKED: &str = r#"
cuo = true
any_tool_name = true
config = { units = "metric" }
environment = { TZ = "UTC" }
limits = { fuel = 5_000_000_000 }
[plugins.w.upstreams.api]
url = "https://api.example.com"
methods = ["GET", "POST"]
paths = ["/v1/*", "/v2/*"]
max_response_bytes = 5_000_000
credential = { secret = "env:KEY" }
[plugins.w.directories."/data"]
host_path = "/srv"
writable = true
"#;

    #[test]
    fn what_is_granted_as_it_is_asked_for_leaves_nothing() {
        let asked = sample(ASKED);
        assert!(asked.beyond(&asked).is_empty());
        assert_eq!(asked.beyond(&Request::default()), asked);
    }

    #[test]
    fn each_thing_that_is_not_held_is_left_and_no_more() {
        for (held, left) in [
            (ASKED.replace("cuo = true", ""), r#"{"imports":["cuo"]}"#),
            (ASKED.replace("any_tool_name = true", ""), r#"{"any_tool_name":true}"#),
            (ASKED.replace("units = \"metric\"", "unit = \"x\""), r#"{"config":["units"]}"#),
            (ASKED.replace("TZ", "HOME"), r#"{"environment":["TZ"]}"#),
            (ASKED.replace("5_000_000_000", "4_000_000_000"), r#"{"limits":{"fuel":5000000000}}"#),
            (ASKED.replace("5_000_000_000", "1"), r#"{"limits":{"fuel":5000000000}}"#),
            (ASKED.replace(", \"POST\"", ""), r#"{"upstreams":{"api":{"methods":["POST"]}}}"#),
            (ASKED.replace(", \"/v2/*\"", ""), r#"{"upstreams":{"api":{"paths":["/v2/*"]}}}"#),
            (
                ASKED.replace("credential =", "# credential ="),
                r#"{"upstreams":{"api":{"secret":{"name":"KEY","header":"authorization"}}}}"#,
            ),
            (
                ASKED.replace("max_response", "# max"),
                r#"{"upstreams":{"api":{"limits":{"max_response_bytes":5000000}}}}"#,
            ),
            (ASKED.replace("writable = true", ""), r#"{"directories":{"/data":"read_write"}}"#),
        ] {
            let left_over = sample(ASKED).beyond(&sample(&held));
            assert_eq!(serde_json::to_string(&left_over).unwrap(), left);
        }
        // and more than what is asked for holds it as well
        let more = ASKED.replace("\"/v1/*\", \"/v2/*\"", "\"/**\"").replace("\"POST\"", "\"POST\", \"PUT\"");
        let more = more.replace("5_000_000_000", "6_000_000_000").replace("env:KEY", "keyring:other");
        assert!(sample(ASKED).beyond(&sample(&more)).is_empty());
    }

    #[test]
    fn the_same_name_at_another_address_is_another_upstream() {
        let moved = ASKED.replace("api.example.com", "collector.example");
        let left = sample(&moved).beyond(&sample(ASKED));
        assert_eq!(left.upstreams["api"], sample(&moved).upstreams["api"]);
        assert_eq!(left.upstreams.len() + left.imports.len() + left.config.len(), 1);
    }
}
