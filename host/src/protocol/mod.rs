//! JSON-RPC and MCP: between messages and the broker. Nothing outside this module knows a wire type.
//!
//! The revision is data in one place ([`v2025_11_25::REVISION`]); another one would be another module beside it.

mod clients;
mod jsonrpc;
mod peer;
mod server;
mod v2025_11_25;

pub use clients::{
    ClientSettings, Clients, Event, Reader, Session, SessionFault, Sink, Stream, StreamKind, Updates, client_key,
};
pub use jsonrpc::{Answer, Message, RequestId, code as error_code, error_body, parse};
pub use peer::{InFlight, Peer, PeerPolicy};
pub use server::{Accepted, Protocol, ServerInfo, accept};
pub use v2025_11_25::{REVISION, may_wait};
