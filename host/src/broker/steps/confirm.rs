//! Step 5: has a person agreed, where the tool's annotations ask for it. Last, because it needs all before it: it is
//! bound to the caller, the tool and the checked arguments. Fails closed.
//!
//! Source: design section 6, confirmation.

use serde_json::{Map, Value};
use std::sync::Arc;

use super::Checked;
use crate::auth::{Caller, Confirmations, Confirming};
use crate::broker::catalog::Entry;
use crate::error::{Error, Reason, Result};
use crate::model::{ToolCall, arguments_sha256};
use crate::runtime::AskTool;
use crate::store::Store;

/// The signed single-use token, in `params._meta`.
pub const TOKEN_KEY: &str = "cyberos/confirmation_token";
/// The host's own word that its user agreed, in `params._meta`.
pub const FLAG_KEY: &str = "mcp/sampling/elicit_confirm";

/// What counts as a confirmation on this bridge.
pub struct ConfirmationPolicy {
    pub tokens: Confirmations,
    pub store: Arc<dyn Store>,
}

/// How a call came to be confirmed; kept in the audit row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    NotNeeded,
    Token,
    HostFlag,
}

impl Confirmation {
    pub fn as_str(self) -> &'static str {
        match self {
            Confirmation::NotNeeded => "not_needed",
            Confirmation::Token => "token",
            Confirmation::HostFlag => "host_flag",
        }
    }
    pub fn parse(word: &str) -> Option<Self> {
        [Confirmation::NotNeeded, Confirmation::Token, Confirmation::HostFlag].into_iter().find(|c| c.as_str() == word)
    }
}

/// A call that passed every gate. Only [`confirm`] makes one, and only a `Cleared` runs.
pub struct Cleared {
    pub caller: Caller,
    pub entry: Arc<Entry>,
    pub arguments: Map<String, Value>,
    pub arguments_sha256: String,
    pub confirmation: Confirmation,
    _only_confirm_makes_this: (),
}

/// Refuses with `confirmation_required`, or `confirmation_invalid` for a token that is spent, late or for another call.
pub async fn confirm(policy: &ConfirmationPolicy, checked: Checked, call: &ToolCall) -> Result<Cleared> {
    let Checked { permit, arguments, arguments_sha256 } = checked;
    let (caller, entry) = (permit.caller, permit.resolved.entry);
    let confirmation = if !entry.tool.annotations.needs_confirmation() {
        Confirmation::NotNeeded
    } else if let Some(token) = call.meta.get(TOKEN_KEY) {
        let token = token.as_str().unwrap_or_default();
        let call = Confirming {
            tenant: caller.tenant(),
            subject: caller.subject(),
            tool: &entry.tool.name,
            arguments: &arguments,
        };
        let nonce = policy.tokens.verify(token, &call)?;
        if !policy.store.use_once(caller.tenant(), &nonce.jti, nonce.expires_at).await? {
            return Err(Error::new(Reason::ConfirmationInvalid, "This confirmation token was used before."));
        }
        Confirmation::Token
    } else if call.context.host_may_confirm && call.meta.get(FLAG_KEY) == Some(&Value::Bool(true)) {
        Confirmation::HostFlag
    } else {
        return Err(Error::new(
            Reason::ConfirmationRequired,
            format!("Tool {} changes things for good and needs a person's confirmation.", entry.tool.name),
        )
        .hint(hint(call.context.host_may_confirm)));
    };
    Ok(Cleared { caller, entry, arguments, arguments_sha256, confirmation, _only_confirm_makes_this: () })
}

fn hint(host_may_confirm: bool) -> String {
    let token = format!(
        "Ask the user, then call again with a token from `cyberos-mcp-bridge confirm sign` in _meta[\"{TOKEN_KEY}\"]"
    );
    match host_may_confirm {
        true => format!("{token}, or with _meta[\"{FLAG_KEY}\"] = true once the user agreed."),
        false => format!("{token}."),
    }
}

impl Cleared {
    /// What the sandbox is asked for.
    pub fn ask(&self) -> AskTool {
        AskTool { name: self.entry.tool.name.to_string(), arguments: Value::Object(self.arguments.clone()).to_string() }
    }

    /// The audit import's own gate: only a tool that a person confirmed, or that the operator's policy let through as
    /// confirmed, may append.
    pub fn may_append(&self) -> bool {
        self.confirmation != Confirmation::NotNeeded
    }

    /// A task's call was cleared when the task was created, and the row that says so is the bridge's own. Arguments and
    /// caller are the row's.
    pub fn of_task(
        caller: Caller,
        entry: Arc<Entry>,
        arguments: Map<String, Value>,
        confirmation: Confirmation,
    ) -> Cleared {
        let arguments_sha256 = hex::encode(arguments_sha256(&arguments));
        Cleared { caller, entry, arguments, arguments_sha256, confirmation, _only_confirm_makes_this: () }
    }
}
