//! The last gate: has a person agreed, where the tool's annotations ask for it. Last, because it needs all before it: it
//! is bound to the caller, the tool and the checked arguments. Fails closed.
//!
//! In this order: a signed token; the host's own word where policy lets it count, because a host that gives it has asked
//! its user already; a question to the user, where the client can show one. While somebody thinks, the call holds no turn
//! at a plugin, and what it cost of the caller's allowance is paid. Source: design section 6, confirmation.

use serde_json::{Map, Value};
use std::sync::Arc;

use super::Checked;
use super::agreement::{agreed, form};
use crate::auth::{Caller, Confirmations, Confirming};
use crate::broker::catalog::Entry;
use crate::error::{Error, Reason, Result};
use crate::model::{ElicitAnswer, Elicitation, Form, ToolCall, arguments_sha256};
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
    /// The user was shown the call, and agreed.
    Elicited,
}

impl Confirmation {
    pub fn as_str(self) -> &'static str {
        match self {
            Confirmation::NotNeeded => "not_needed",
            Confirmation::Token => "token",
            Confirmation::HostFlag => "host_flag",
            Confirmation::Elicited => "elicited",
        }
    }
    pub fn parse(word: &str) -> Option<Self> {
        [Confirmation::NotNeeded, Confirmation::Token, Confirmation::HostFlag, Confirmation::Elicited]
            .into_iter()
            .find(|c| c.as_str() == word)
    }
}

/// What the last gate says.
pub enum Gated {
    Cleared(Cleared),
    /// It may become a task, which asks before it does anything else.
    Pending(Pending),
}

/// A call that passed every gate. Only this file makes one, and only a `Cleared` runs.
pub struct Cleared {
    pub caller: Caller,
    pub entry: Arc<Entry>,
    pub arguments: Map<String, Value>,
    pub arguments_sha256: String,
    pub confirmation: Confirmation,
    _only_confirm_makes_this: (),
}

/// A call that lacks a person's word and nothing else. It can be stored; nothing can run it: the one way on is
/// [`Pending::answered`].
pub struct Pending {
    pub caller: Caller,
    pub entry: Arc<Entry>,
    pub arguments: Map<String, Value>,
    pub arguments_sha256: String,
    _only_confirm_makes_this: (),
}

/// Refuses with `confirmation_required`, with `confirmation_invalid` for a token that is spent, late or for another call,
/// and with `user_declined`.
pub async fn confirm(policy: &ConfirmationPolicy, checked: Checked, call: &ToolCall) -> Result<Gated> {
    let Checked { permit, arguments, arguments_sha256 } = checked;
    let (caller, entry) = (permit.caller, permit.resolved.entry);
    let needed = entry.tool.annotations.needs_confirmation();
    let pending = Pending { caller, entry, arguments, arguments_sha256, _only_confirm_makes_this: () };
    if !needed {
        return Ok(Gated::Cleared(pending.cleared(Confirmation::NotNeeded)));
    }
    if let Some(token) = call.meta.get(TOKEN_KEY) {
        spend(policy, &pending, token.as_str().unwrap_or_default()).await?;
        return Ok(Gated::Cleared(pending.cleared(Confirmation::Token)));
    }
    if call.context.host_may_confirm && call.meta.get(FLAG_KEY) == Some(&Value::Bool(true)) {
        return Ok(Gated::Cleared(pending.cleared(Confirmation::HostFlag)));
    }
    if !call.context.client.features().elicit_form {
        return Err(pending.unconfirmed(call.context.host_may_confirm));
    }
    // A task answers at once, and asks when its client waits for it.
    if call.task.is_some() {
        return Ok(Gated::Pending(pending));
    }
    let answer = tokio::select! {
        biased;
        () = call.context.cancel.cancelled() => Err(Error::new(Reason::Cancelled, "The call was cancelled.")),
        answer = call.context.client.elicit(Elicitation::Form(pending.form()?)) => answer,
    };
    pending.answered(answer).map(Gated::Cleared)
}

async fn spend(policy: &ConfirmationPolicy, pending: &Pending, token: &str) -> Result<()> {
    let call = Confirming {
        tenant: pending.caller.tenant(),
        subject: pending.caller.subject(),
        tool: &pending.entry.tool.name,
        arguments: &pending.arguments,
    };
    let nonce = policy.tokens.verify(token, &call)?;
    match policy.store.use_once(call.tenant, &nonce.jti, nonce.expires_at).await? {
        true => Ok(()),
        false => Err(Error::new(Reason::ConfirmationInvalid, "This confirmation token was used before.")),
    }
}

impl Pending {
    /// In audit and task rows.
    pub const WORD: &str = "pending";

    /// What the user is asked.
    pub fn form(&self) -> Result<Form> {
        form(&self.entry.tool, &self.arguments)
    }

    /// The user's answer, or what kept it from coming.
    pub fn answered(self, answer: Result<ElicitAnswer>) -> Result<Cleared> {
        agreed(&self.entry.tool, answer)?;
        Ok(self.cleared(Confirmation::Elicited))
    }

    fn cleared(self, confirmation: Confirmation) -> Cleared {
        let Pending { caller, entry, arguments, arguments_sha256, .. } = self;
        Cleared { caller, entry, arguments, arguments_sha256, confirmation, _only_confirm_makes_this: () }
    }

    fn unconfirmed(&self, host_may_confirm: bool) -> Error {
        Error::new(
            Reason::ConfirmationRequired,
            format!("Tool {} changes things for good and needs a person's confirmation.", self.entry.tool.name),
        )
        .hint(hint(host_may_confirm))
    }
}

fn hint(host_may_confirm: bool) -> String {
    let token = format!(
        "Ask the user, then call again with a token from `cyberos-mcp-bridge confirm sign` in _meta[\"{TOKEN_KEY}\"]"
    );
    let or_ask = "or use a client that supports elicitation, which is asked by itself";
    match host_may_confirm {
        true => format!("{token}, or with _meta[\"{FLAG_KEY}\"] = true once the user agreed; {or_ask}."),
        false => format!("{token}, {or_ask}."),
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
}

impl Gated {
    /// A task's call passed the gates when the task was created, and the row that says so is the bridge's own. Arguments
    /// and caller are the row's. A word that confirms nothing, for a tool that needs it, is as good as none.
    pub fn of_task(caller: Caller, entry: Arc<Entry>, arguments: Map<String, Value>, confirmed: &str) -> Gated {
        let arguments_sha256 = hex::encode(arguments_sha256(&arguments));
        let needed = entry.tool.annotations.needs_confirmation();
        let pending = Pending { caller, entry, arguments, arguments_sha256, _only_confirm_makes_this: () };
        match Confirmation::parse(confirmed) {
            Some(Confirmation::NotNeeded) | None if needed => Gated::Pending(pending),
            word => Gated::Cleared(pending.cleared(word.unwrap_or(Confirmation::NotNeeded))),
        }
    }

    pub fn caller(&self) -> &Caller {
        match self {
            Gated::Cleared(cleared) => &cleared.caller,
            Gated::Pending(pending) => &pending.caller,
        }
    }

    pub fn entry(&self) -> &Arc<Entry> {
        match self {
            Gated::Cleared(cleared) => &cleared.entry,
            Gated::Pending(pending) => &pending.entry,
        }
    }

    pub fn arguments(&self) -> &Map<String, Value> {
        match self {
            Gated::Cleared(cleared) => &cleared.arguments,
            Gated::Pending(pending) => &pending.arguments,
        }
    }

    /// As audit and task rows say it.
    pub fn confirmation(&self) -> &'static str {
        match self {
            Gated::Cleared(cleared) => cleared.confirmation.as_str(),
            Gated::Pending(_) => Pending::WORD,
        }
    }
}
