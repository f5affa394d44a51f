//! Who is calling. The only module that makes a [`Caller`], from a verified token or as the local principal.
//!
//! Transports ask [`Identifier`]; the broker's confirmation step asks [`Confirmations`]; the command line mints with
//! [`Issuer`]. Nothing here knows tools, JSON-RPC or status codes.

mod caller;
mod challenge;
mod claims;
mod clock;
mod confirmation;
mod identify;
mod issuer;
mod jwk;
mod jwks;
mod resource;
pub mod secret_file;
mod session_id;
mod settings;
mod token;
mod verified;

#[cfg(test)]
mod test_keys;

pub use caller::{Caller, Identity};
pub use challenge::www_authenticate;
pub use clock::Clock;
pub use confirmation::{Confirmations, Confirming, LIFETIME_SECONDS as CONFIRMATION_SECONDS, Nonce};
pub use identify::Identifier;
pub use issuer::{DEV_ISSUER, Issuer, MAX_TTL, MintRequest};
pub use resource::{METADATA_PATH, ProtectedResource, Scopes, well_known};
pub use session_id::{BadSessionId, OpenSession, SessionIds};
pub use settings::{AuthMode, AuthSettings, IssuerSettings, KeySource, SettingError, StdioToken};
pub use token::{MAX_TOKEN_BYTES, Verifier};
