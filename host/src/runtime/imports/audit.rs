//! `cyberos:plugin/audit-append` and `audit-read`: the caller's own audit log. Tenant and actor are the host's to set.

use serde_json::Value;

use crate::error::Error;
use crate::runtime::bindings::cyberos::plugin::audit_append::{self, AuditError, Position};
use crate::runtime::bindings::cyberos::plugin::audit_read::{self, Query};
use crate::runtime::call::CallState;
use crate::upstreams::memory::{Append, ReadQuery, check_kind, check_not_reserved};

const MAX_BODY_BYTES: usize = 64 << 10;

impl audit_append::Host for CallState {
    async fn append(&mut self, kind: String, body: String) -> wasmtime::Result<Result<Position, AuditError>> {
        self.enter()?;
        if !self.call.cleared_to_append {
            self.denied("audit-append", "not-cleared");
            return Ok(Err(AuditError::NotCleared));
        }
        if let Err(why) = check_kind(&kind).and_then(|()| check_not_reserved(&kind)) {
            return Ok(Err(AuditError::Invalid(why)));
        }
        if body.len() > MAX_BODY_BYTES {
            return Ok(Err(AuditError::Invalid(format!("body is over {MAX_BODY_BYTES} bytes"))));
        }
        let Ok(body @ Value::Object(_)) = serde_json::from_str::<Value>(&body) else {
            return Ok(Err(AuditError::Invalid("body is not a JSON object".into())));
        };
        let row = Append {
            caller: self.call.caller.clone(),
            bearer: self.call.bearer.clone(),
            kind,
            body,
            trace: self.call.trace,
            idempotency_key: self.idempotency_key(),
        };
        match self.services.memory.append(row).await {
            Ok(at) => Ok(Ok(Position { seq: at.seq, chain_anchor: at.chain_anchor, prev_anchor: at.prev_anchor })),
            Err(error) => Ok(Err(self.unavailable(error))),
        }
    }
}

impl audit_read::Host for CallState {
    async fn read(&mut self, query: Query) -> wasmtime::Result<Result<String, AuditError>> {
        self.enter()?;
        if !(1..=1000).contains(&query.limit) {
            return Ok(Err(AuditError::Invalid("limit is not between 1 and 1000".into())));
        }
        let query = ReadQuery {
            caller: self.call.caller.clone(),
            bearer: self.call.bearer.clone(),
            actor: query.actor,
            kind: query.kind,
            since_seq: query.since_seq,
            limit: query.limit,
            trace: self.call.trace,
        };
        match self.services.memory.read(query).await {
            Ok(page) => Ok(Ok(page.to_string())),
            Err(error) => Ok(Err(self.unavailable(error))),
        }
    }
}

impl CallState {
    fn unavailable(&mut self, error: Error) -> AuditError {
        let text = error.to_string();
        self.blame(error);
        AuditError::Unavailable(text)
    }

    /// The same call, sent again by a retry on the way, must not append twice; two appends of one call must.
    fn idempotency_key(&mut self) -> String {
        self.appends += 1;
        format!("{}-{}-{}", self.call.trace.id, hex::encode(self.call.trace.span), self.appends)
    }
}
