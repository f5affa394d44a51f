//! `plugins inspect`: a component's permission label, from its bytes, the grants and what was approved. Nothing of it runs.

use anyhow::Context;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::process::ExitCode;

use super::target::{self, Target};
use crate::cli::out::{self, OutputArgs};
use crate::cli::tools::label;
use crate::config::Approval;
use crate::config::SettingsArgs;
use crate::plugins::approvals::Approved;
use crate::plugins::interface::{Interface, Verdict};
use crate::plugins::provenance::Signed;
use crate::plugins::{Blocked, Provenance, Request, signatures};

#[derive(clap::Args)]
pub struct Arguments {
    /// A plugin's name, or a component's file.
    #[arg(value_name = "NAME|FILE.wasm")]
    name: String,
}

/// Everything that is known before the component runs.
struct Label {
    target: Target,
    digest: String,
    /// Or the clause that says why it is no component.
    interface: Result<Interface, String>,
    /// What the policy makes of it.
    admitted: Result<Provenance, Blocked>,
    approved: Option<Approved>,
    /// `None`: it does not say. The error is a clause.
    asks: Result<Option<Request>, String>,
}

pub fn run(settings: &SettingsArgs, arguments: &Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let target = Target::find(settings, &arguments.name)?;
    let digest = hex::encode(Sha256::digest(&target.wasm));
    let admitted = signatures::check(
        &target.policy,
        &signatures::Component {
            id: &target.id,
            path: target.path.as_deref(),
            wasm: &target.wasm,
            digest: &digest,
            grants: &target.grants,
        },
    );
    let interface = Interface::of(&target.wasm);
    let approvals = target::approvals(settings)?;
    let approved =
        approvals.of(&target.id).with_context(|| format!("{} cannot be read", approvals.path().display()))?;
    let asks = Request::read(&target.wasm).map_err(|why| why.to_string());
    let label = Label { target, digest, interface, admitted, approved, asks };
    match output.json {
        true => out::json(&label.json())?,
        false => out::text(&label.text())?,
    }
    Ok(if label.serves() { ExitCode::SUCCESS } else { ExitCode::from(out::NO) })
}

impl Label {
    /// As far as can be known without running it.
    fn serves(&self) -> bool {
        let loads = |interface: &Interface| {
            let judged = interface.judged(&self.target.grants);
            judged.iter().all(|(_, verdict)| matches!(verdict, Verdict::Always | Verdict::Granted))
        };
        let known = self.asks.is_ok() && self.not_agreed().is_empty();
        self.admitted.is_ok() && known && self.interface.as_ref().is_ok_and(loads)
    }

    /// What it asks for and does not get.
    fn lacks(&self) -> Request {
        let asks = self.asks.as_ref().ok().and_then(Option::as_ref);
        asks.map(|asks| asks.beyond(&Request::of(&self.target.grants))).unwrap_or_default()
    }

    /// What of that it waits for.
    fn not_agreed(&self) -> Request {
        let (Some(known), Ok(Some(asks))) = (&self.approved, &self.asks) else { return Request::default() };
        match self.target.policy.approval {
            Approval::Off => Request::default(),
            _ => known.not_agreed(&self.digest, asks, &self.target.grants),
        }
    }

    fn asks(&self) -> String {
        match &self.asks {
            Err(_) => "not known; see below".into(),
            Ok(None) => "it does not say".into(),
            Ok(Some(asks)) => or(asks.lines().join("\n"), "nothing"),
        }
    }

    /// What it says of itself is shown also when it is refused: that is when one looks.
    fn claims(&self) -> Provenance {
        match &self.admitted {
            Ok(found) => found.clone(),
            Err(_) => Provenance::of(&self.digest, &self.target.wasm, Signed::Unsigned),
        }
    }

    fn text(&self) -> String {
        let (claims, target) = (self.claims(), &self.target);
        let file = target.path.as_ref().map_or("part of this binary".into(), |path| path.display().to_string());
        let mut fields = vec![
            ("plugin", target.id.to_string()),
            ("file", format!("{file}, {} bytes", target.wasm.len())),
            (
                "digest",
                format!("sha256:{}{}", self.digest, if target.grants.digest.is_some() { " (pinned)" } else { "" }),
            ),
            ("signature", self.signature()),
        ];
        let says = [
            ("version", claims.version),
            ("authors", claims.authors),
            ("licenses", claims.licenses),
            ("source", target.grants.source.clone().or(claims.source)),
            ("revision", claims.revision),
        ];
        fields.extend(says.into_iter().filter_map(|(name, said)| Some((name, said?))));
        fields.push(("built with", or(claims.producers.join("\n"), "not said")));
        fields.push(("imports", self.imports()));
        fields.push(("asks for", self.asks()));
        let lacks = self.lacks();
        if !lacks.is_empty() {
            fields.push(("NOT GRANTED", lacks.lines().join("\n")));
        }
        fields.extend(label::granted(&target.grants));
        fields.push(("tools", self.tools()));
        let refused = self.refusals();
        if !refused.is_empty() {
            fields.push(("not served", refused.join("\n")));
        }
        out::fields(&fields)
    }

    fn signature(&self) -> String {
        match &self.admitted {
            Ok(Provenance { signature, .. }) => match signature {
                Signed::BuiltIn => "of the bridge itself".into(),
                Signed::Unsigned => "none".into(),
                Signed::Unchecked { key_id } => format!("by the key {key_id}, not checked: policy.keys is empty"),
                Signed::Verified { key_id, trusted_comment } => format!("by the key {key_id}: {trusted_comment}"),
            },
            Err(_) => "not good; see below".into(),
        }
    }

    fn imports(&self) -> String {
        let Ok(interface) = &self.interface else { return "not known".into() };
        let judged = interface.judged(&self.target.grants);
        let mut lines = vec![];
        for (wanted, word) in [
            (Verdict::NotOffered, "NOT OFFERED"),
            (Verdict::Missing, "NOT GRANTED"),
            (Verdict::Granted, "granted"),
            (Verdict::Always, "always"),
        ] {
            let names = judged.iter().filter(|(_, verdict)| *verdict == wanted);
            lines.extend(names.map(|(name, _)| format!("{word:11}  {name}")));
        }
        or(lines.join("\n"), "none")
    }

    /// Known from the version that was approved; this one was not asked yet.
    fn tools(&self) -> String {
        let Some(approved) = &self.approved else { return "known once it was served".into() };
        let tool = |name: &String| {
            let scopes = approved.says.0.get(name).map(|said| scopes(said).join(" ")).unwrap_or_default();
            format!("{name}: {}", or(scopes, "no scopes"))
        };
        let mut lines: Vec<String> = approved.offered.iter().map(tool).collect();
        if approved.digest != self.digest {
            lines.push(format!("(as approved of sha256:{}; this one may offer others)", approved.digest));
        }
        lines.join("\n")
    }

    fn refusals(&self) -> Vec<String> {
        let id = &self.target.id;
        let mut refused: Vec<String> = self.admitted.as_ref().err().map(|why| why.reason.clone()).into_iter().collect();
        refused.extend(self.asks.as_ref().err().cloned());
        let more = self.not_agreed();
        if !more.is_empty() {
            refused.push(format!(
                "it asks for more than the version before, and that is not granted: {}. See `plugins grant {id} \
                 --as-asked`, or `plugins approve {id}`",
                more.summary()
            ));
        }
        match &self.interface {
            Err(why) => refused.push(why.clone()),
            Ok(interface) => {
                for (name, verdict) in interface.judged(&self.target.grants) {
                    match verdict {
                        Verdict::Missing => {
                            let how = if self.lacks().is_empty() { "--help" } else { "--as-asked" };
                            refused.push(format!(
                                "it imports {name}, which is not granted: see `plugins grant {id} {how}`"
                            ));
                        }
                        Verdict::NotOffered => {
                            refused.push(format!("it imports {name}, which this host does not offer"))
                        }
                        Verdict::Always | Verdict::Granted => {}
                    }
                }
            }
        }
        let waiting = self.approved.as_ref().and_then(|known| known.waiting.as_ref());
        if waiting.is_some_and(|one| one.digest == self.digest && one.says.is_some()) {
            refused.push(format!("what its tools say has changed: see `plugins approve {id}`"));
        }
        refused
    }

    fn json(&self) -> Value {
        let imports = self.interface.as_ref().map(|interface| {
            let judged = interface.judged(&self.target.grants);
            judged.iter().map(|(name, verdict)| json!({ "interface": name, "verdict": verdict })).collect::<Vec<_>>()
        });
        let tools = self.approved.as_ref().map(|approved| {
            let one = |name: &String| json!({ "name": name, "scopes": approved.says.0.get(name).map(scopes) });
            approved.offered.iter().map(one).collect::<Vec<_>>()
        });
        let mut label = json!({
            "plugin": self.target.id,
            "file": self.target.path,
            "bytes": self.target.wasm.len(),
            "serves": self.serves(),
            "not_served": self.refusals(),
            "pinned": self.target.grants.digest,
            "origin": self.target.grants.source,
            "provenance": self.claims(),
            "imports": imports.ok(),
            "asks": self.asks.as_ref().ok(),
            "asks_not_granted": self.lacks(),
            "offers": tools,
        });
        let granted = label::granted_json(&self.target.grants);
        label.as_object_mut().expect("it is one").extend(granted.as_object().cloned().unwrap_or_default());
        label
    }
}

fn scopes(said: &Value) -> Vec<&str> {
    said["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn or(text: String, instead: &str) -> String {
    if text.is_empty() { instead.to_owned() } else { text }
}
