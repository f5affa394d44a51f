//! What the component says that it asks for, beside what it imports: a request for what it cannot use, and a use of what it
//! does not ask for.

use super::{COMPONENT, Findings, said};
use crate::author::add::field;
use crate::plugins::Request;
use crate::plugins::request::BadRequest;
use crate::runtime::Import;

/// By field of `plugins.toml`: the interfaces without which it is of no use, by their beginnings.
const USES: [(&str, &[&str]); 10] = [
    ("upstreams", &["cyberos:plugin/http-fetch@", "wasi:http/outgoing-handler@"]),
    ("config", &["cyberos:plugin/config@"]),
    ("directories", &["wasi:filesystem/preopens@"]),
    ("environment", &["wasi:cli/environment@"]),
    ("cuo", &["cyberos:plugin/spawn-cuo@"]),
    ("audit_append", &["cyberos:plugin/audit-append@"]),
    ("audit_read", &["cyberos:plugin/audit-read@"]),
    ("elicit", &["cyberos:plugin/elicit@"]),
    ("sample", &["cyberos:plugin/sample@"]),
    ("resource_updates", &["cyberos:plugin/resource-updates@"]),
];

pub fn look(asks: &Result<Option<Request>, BadRequest>, imports: &[Import], findings: &mut Findings) {
    let asks = match asks {
        Ok(asks) => asks.as_ref(),
        Err(why) => return findings.error(COMPONENT, said(why), "Build it again with `plugin build`."),
    };
    for import in imports {
        let Some(grant) = import.grant else { continue };
        let says = format!("It imports {}, which an operator must grant", import.name);
        match asks {
            Some(asks) if asks.asks_for(field(grant)) => {}
            // Whoever reads what it asks for would not hear of this.
            Some(_) => findings.warn(
                COMPONENT,
                format!("{says}, and does not ask for it"),
                format!("Ask for `{grant}` in grants.toml and build it again, or take the import out."),
            ),
            None => findings.note(
                COMPONENT,
                says,
                format!("Ask for `{grant}` in grants.toml, and say in the README what for."),
            ),
        }
    }
    let Some(asks) = asks else { return };
    for (field, interfaces) in USES.into_iter().filter(|(field, _)| asks.asks_for(field)) {
        let is_used = |import: &Import| interfaces.iter().any(|interface| import.name.starts_with(interface));
        if !imports.iter().any(is_used) {
            let interfaces: Vec<&str> = interfaces.iter().map(|interface| interface.trim_end_matches('@')).collect();
            findings.warn(
                COMPONENT,
                format!("It asks for {field}, and does not import {}", interfaces.join(" or ")),
                "Take it out of grants.toml, or use it: an operator is asked for no more than is needed.",
            );
        }
    }
}
