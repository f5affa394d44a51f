//! MCP revision 2025-11-25: its methods, and its shapes on the wire.
//!
//! `dispatch` is the list of what we answer. Capabilities (`lifecycle`) advertise exactly that.

mod clients;
mod completions;
mod cursor;
mod followers;
mod lifecycle;
mod logging;
mod prompts;
mod resources;
mod shapes;
mod subscriptions;
mod tasks;
mod tools;

pub use followers::Followers;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::jsonrpc::RequestId;
use super::peer::Peer;
use super::server::Protocol;
use crate::error::{Error, Reason, Result};
use crate::model::{CallContext, Trace};

/// The one revision that we speak.
pub const REVISION: &str = "2025-11-25";

/// A request on its way to its handler.
pub struct Request<'a> {
    pub protocol: &'a Protocol,
    pub peer: &'a Peer,
    pub id: &'a RequestId,
    pub params: Map<String, Value>,
    pub trace: Trace,
    pub cancel: CancellationToken,
}

/// Can the answer take as long as a plugin, or a person, takes?
pub fn may_wait(method: &str) -> bool {
    matches!(method, "tools/call" | "tasks/result" | "prompts/get" | "resources/read" | "completion/complete")
}

pub async fn dispatch(method: &str, request: Request<'_>) -> Result<Value> {
    // What no plugin offers is not advertised, and is then no method of ours.
    let offers = request.protocol.kinds();
    match method {
        "initialize" => lifecycle::initialize(request),
        "ping" => Ok(json!({})),
        "logging/setLevel" => logging::set_level(request).await,
        "resources/subscribe" if offers.resources => subscriptions::subscribe(request).await,
        "resources/unsubscribe" if offers.resources => subscriptions::unsubscribe(request).await,
        "tools/list" => tools::list(request),
        "tools/call" => tools::call(request).await,
        "prompts/list" if offers.prompts => prompts::list(request),
        "prompts/get" if offers.prompts => prompts::get(request).await,
        "resources/list" if offers.resources => resources::list(request),
        "resources/templates/list" if offers.resources => resources::list_templates(request),
        "resources/read" if offers.resources => resources::read(request).await,
        "completion/complete" if offers.completions => completions::complete(request).await,
        "tasks/get" => tasks::get(request).await,
        "tasks/result" => tasks::result(request).await,
        "tasks/list" => tasks::list(request).await,
        "tasks/cancel" => tasks::cancel(request).await,
        other => {
            let name: String = other.chars().filter(|c| !c.is_control()).take(100).collect();
            Err(Error::new(Reason::MethodNotFound, format!("Unknown method: {name}")))
        }
    }
}

/// `requestId` in a cancellation.
pub fn request_id(value: &Value) -> Option<RequestId> {
    match value {
        Value::String(text) => Some(RequestId::Text(text.clone())),
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        _ => None,
    }
}

impl Request<'_> {
    fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.params.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(format!("params.{name} must be a string."))),
        }
    }

    /// What surrounds a call that this request makes.
    fn context(&self) -> Result<CallContext> {
        Ok(CallContext {
            trace: self.trace,
            request_id: Some(self.id.to_string()),
            cancel: self.cancel.clone(),
            progress: self.peer.progress_sink(&self.object("_meta")?),
            client: self.peer.client_port(&self.protocol.clients, None),
            host_may_confirm: self.peer.policy.host_may_confirm,
        })
    }

    fn object(&self, name: &str) -> Result<Map<String, Value>> {
        match self.params.get(name) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(_) => Err(invalid(format!("params.{name} must be an object."))),
        }
    }
}

fn invalid(text: String) -> Error {
    Error::new(Reason::InvalidParams, text)
}
