//! placeholder until the branch lands
use crate::config::UpstreamGrant;
use std::time::Duration;
pub struct HttpUpstreams;
pub struct FetchRequest {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub timeout: Duration,
    pub traceparent: String,
}
pub struct FetchResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}
pub enum FetchError {
    NotGranted(String),
    InvalidRequest(String),
    AddressRefused,
    Timeout,
    TooLarge,
    Unreachable(String),
}
impl HttpUpstreams {
    pub async fn fetch(&self, _g: &UpstreamGrant, _r: FetchRequest) -> Result<FetchResponse, FetchError> {
        Err(FetchError::AddressRefused)
    }
}
