//! placeholder until the branch lands
use crate::{
    error::Error,
    model::{ProgressSink, Trace},
};
use serde_json::Value;
pub struct Cuo;
pub struct CuoContext {
    pub trace: Trace,
    pub progress: ProgressSink,
}
pub enum CuoError {
    UnknownMethod,
    InvalidParams(String),
    Unavailable(Error),
    Failed(String),
}
impl Cuo {
    pub async fn request(&self, _m: &str, _p: Value, _c: CuoContext) -> Result<Value, CuoError> {
        Err(CuoError::UnknownMethod)
    }
}
