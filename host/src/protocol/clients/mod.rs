//! What we hold of our clients beside and between their requests: what they said of themselves, what we asked them, where
//! they can be told something, and how to reach them when another replica holds their connection.
//!
//! Knows messages, no transport: what a stream of them looks like on the wire is the transport's business.

mod asking;
mod listeners;
mod postage;
mod replicas;
mod sessions;
mod streams;
mod updates;

pub use asking::PeerClient;
pub use listeners::Listener;
pub use sessions::{Session, SessionFault};
pub use streams::{Event, Reader, Sink, Stream, StreamKind};
pub use updates::Updates;

use std::sync::Arc;
use std::time::Duration;

use super::peer::{InFlight, Peer};
use crate::auth::{Caller, SessionIds};
use crate::broker::Broker;
use crate::model::TenantId;
use crate::store::Store;
use asking::Asking;
use listeners::Listeners;
use postage::Postage;
use replicas::Follows;
use sessions::Sessions;
use streams::Streams;

/// How the bridge deals with its clients between calls.
#[derive(Clone, Copy, Debug)]
pub struct ClientSettings {
    /// How long a client may take to answer a question of ours: a person may have to read it. 300 s.
    pub ask_timeout: Duration,
}

pub struct Clients {
    /// Tells this process from others on the same store.
    replica: Arc<str>,
    /// Requests that are being answered.
    pub in_flight: InFlight,
    asking: Asking,
    listeners: Listeners,
    pub sessions: Sessions,
    pub streams: Streams,
    follows: Follows,
    postage: Postage,
    store: Arc<dyn Store>,
    broker: Arc<Broker>,
}

impl Clients {
    pub fn new(ids: SessionIds, broker: Arc<Broker>, store: Arc<dyn Store>, settings: ClientSettings) -> Arc<Clients> {
        let replica: Arc<str> = hex::encode(rand::random::<[u8; 6]>()).into();
        Arc::new(Clients {
            asking: Asking::new(replica.clone(), settings.ask_timeout),
            listeners: Listeners::default(),
            sessions: Sessions::new(ids, store.clone()),
            streams: Streams::new(replica.clone()),
            follows: Follows::default(),
            postage: Postage::default(),
            in_flight: InFlight::default(),
            replica,
            store,
            broker,
        })
    }

    /// This peer can be told things from now on, for as long as its connection lasts.
    pub fn hear(&self, peer: &Peer) {
        if let Some(sink) = &peer.sink {
            let (caller, session) = (peer.caller.clone(), peer.session.clone());
            self.listeners.add(peer.key.clone(), Listener { caller, session, sink: sink.clone(), since: None });
        }
    }

    /// This client has gone.
    pub fn leave(&self, key: &str) {
        self.listeners.remove(key);
    }

    /// We go: nobody will be told anything any more, and what is read through us can be read through others. Streams of
    /// requests that run here end with them.
    pub fn close_listening(&self) {
        self.streams.close_listening();
        self.listeners.close();
        self.follows.close();
    }

    /// Is an answer of this client awaited?
    pub fn awaits(&self, key: &str) -> bool {
        self.asking.awaits(key)
    }
}

/// Who a client is, to everything that is kept between its requests: another subject's session is another client.
///
/// The subject comes last: it is whatever an issuer says, and the others hold no slash.
pub fn client_key(caller: &Caller, session: &Session) -> Arc<str> {
    let session = session.id().map(|id| id.to_string());
    format!("{}/{}/{}", caller.tenant(), session.as_deref().unwrap_or("-"), caller.subject()).into()
}

/// Is this the key of a client of this tenant's, that other replicas may know? A connection's is known here alone.
fn is_of(key: &str, tenant: TenantId) -> bool {
    key.split_once('/').is_some_and(|(owner, _)| owner == tenant.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_acts_for_clients_of_its_own_tenant_only() {
        let (own, other) = (TenantId(uuid::Uuid::from_u128(7)), TenantId(uuid::Uuid::from_u128(8)));
        let key = format!("{own}/-/alice");
        assert!(is_of(&key, own));
        assert!(!is_of(&key, other));
        assert!(!is_of("stdio", own), "what is meant for one connection is no other process's to tell");
    }
}
