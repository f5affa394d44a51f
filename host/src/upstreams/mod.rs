//! The outside: everything that the bridge itself calls. A plugin never calls out; it asks the host, and the host
//! asks one of these, under the plugin's grants.

pub mod cuo;
pub mod download;
pub mod http;
mod http_client;
mod jwks_fetch;
pub mod memory;
pub mod tls;

pub use http_client::{UpstreamUrlError, check_transport, client_for, is_loopback};
pub use jwks_fetch::JwksFetch;
