//! What a task's row keeps of its caller and its call, beside owner and arguments: enough to run it in another process,
//! and nothing that could be used elsewhere.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

use crate::broker::steps::{Confirmation, Gated};
use crate::model::{CallContext, ClientFeatures, Trace, TraceId};
use crate::store::TaskRow;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredCall {
    /// `None`: all of them.
    pub scopes: Option<BTreeSet<String>>,
    pub request_id: Option<String>,
    span: String,
    sampled: bool,
    /// How it came to be confirmed, or that it was not yet.
    pub confirmation: String,
    /// What the client that created it can be asked.
    #[serde(default)]
    pub features: ClientFeatures,
}

impl StoredCall {
    pub fn new(gated: &Gated, context: &CallContext) -> StoredCall {
        StoredCall {
            scopes: gated.caller().scopes().cloned(),
            request_id: context.request_id.clone(),
            span: hex::encode(context.trace.span),
            sampled: context.trace.sampled,
            confirmation: gated.confirmation().into(),
            features: context.client.features(),
        }
    }

    /// A damaged row is a caller without scopes, who confirmed nothing and cannot be asked.
    pub fn of(row: &TaskRow) -> StoredCall {
        serde_json::from_value(row.call.clone()).unwrap_or_else(|error| {
            tracing::error!(task = %row.id, %error, "a task row is damaged; it is treated as a caller without scopes");
            StoredCall {
                scopes: Some(BTreeSet::new()),
                request_id: None,
                span: String::new(),
                sampled: false,
                confirmation: String::new(),
                features: ClientFeatures::default(),
            }
        })
    }

    pub fn trace(&self, id: TraceId) -> Trace {
        let mut span = [0u8; 8];
        // A damaged row only loses its place in the trace.
        let _ = hex::decode_to_slice(&self.span, &mut span);
        Trace { id, span, parent: None, sampled: self.sampled }
    }

    /// The same call, once its owner agreed.
    pub fn agreed(self) -> StoredCall {
        StoredCall { confirmation: Confirmation::Elicited.as_str().into(), ..self }
    }

    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("plain data is JSON")
    }
}
