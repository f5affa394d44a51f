//! placeholder until the branch lands
use crate::{
    auth::Caller,
    error::{Error, Reason, Result},
    model::Trace,
    store::AuditPosition,
};
use secrecy::SecretString;
use serde_json::Value;
use std::sync::Arc;
pub enum Memory {
    Embedded(Arc<dyn crate::store::Store>),
}
pub struct Append {
    pub caller: Caller,
    pub bearer: Option<Arc<SecretString>>,
    pub kind: String,
    pub body: Value,
    pub trace: Trace,
    pub idempotency_key: String,
}
pub struct ReadQuery {
    pub caller: Caller,
    pub bearer: Option<Arc<SecretString>>,
    pub actor: Option<String>,
    pub kind: Option<String>,
    pub since_seq: Option<i64>,
    pub limit: u32,
    pub trace: Trace,
}
impl Memory {
    pub async fn append(&self, _a: Append) -> Result<AuditPosition> {
        Err(Error::new(Reason::Unreachable, "x"))
    }
    pub async fn read(&self, _q: ReadQuery) -> Result<Value> {
        Err(Error::new(Reason::Unreachable, "x"))
    }
}
