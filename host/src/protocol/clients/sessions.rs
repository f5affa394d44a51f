//! Sessions: what a client said at `initialize` and asked for since.
//!
//! A session over HTTP is its id, which says everything that was fixed at its start; only what was changed later (its end,
//! its log level, its subscriptions) is in the store. A bridge that has it to itself reads that once, replicas with every
//! request. Over stdio the connection is the session. Source: design section 6, sessions; MCP 2025-11-25, session management.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use uuid::Uuid;

use crate::auth::{BadSessionId, Caller, OpenSession, SessionIds};
use crate::error::{Error, Reason, Result};
use crate::model::{ClientFacts, LogLevel, TenantId};
use crate::store::{MAX_SUBSCRIPTIONS, SessionState, Store};

/// Sessions that this replica remembers the state of; the store has them all.
const REMEMBERED: usize = 10_000;
/// Before a client says what it wants to hear.
const DEFAULT_LOG_LEVEL: LogLevel = LogLevel::Info;

pub struct Sessions {
    ids: SessionIds,
    store: Arc<dyn Store>,
    remembered: Mutex<HashMap<(TenantId, Uuid), Session>>,
}

/// One client's session; cheap to clone.
#[derive(Clone)]
pub struct Session {
    lasting: Arc<Lasting>,
    /// The session that this request opened. Never shared with other requests of the same session.
    opened: Arc<OnceLock<OpenSession>>,
}

/// What all requests of a session share.
struct Lasting {
    kind: Kind,
    facts: Mutex<ClientFacts>,
    state: Mutex<SessionState>,
}

enum Kind {
    /// A connection that lasts.
    Connection,
    /// An id that came with a request.
    Stored { tenant: TenantId, open: OpenSession },
    /// A request that belongs to none.
    None,
}

/// Why a session id is not let through.
pub enum SessionFault {
    NotAnId,
    Unknown,
    /// The store cannot say whether the session still stands.
    Unavailable(Error),
}

impl Session {
    fn new(kind: Kind, facts: ClientFacts, state: SessionState) -> Session {
        let (facts, state) = (Mutex::new(facts), Mutex::new(state));
        Session { lasting: Arc::new(Lasting { kind, facts, state }), opened: Arc::default() }
    }

    /// Of a connection that lasts as long as its client.
    pub fn of_connection() -> Session {
        Session::new(Kind::Connection, ClientFacts::default(), SessionState::default())
    }

    /// Of a request that names no session.
    pub fn none() -> Session {
        Session::new(Kind::None, ClientFacts::default(), SessionState::default())
    }

    pub fn id(&self) -> Option<Uuid> {
        match &self.lasting.kind {
            Kind::Stored { open, .. } => Some(open.id),
            Kind::Connection | Kind::None => None,
        }
    }

    /// The session that `initialize` opened on this request, for the transport to tell.
    pub fn opened(&self) -> Option<Uuid> {
        self.opened.get().map(|open| open.id)
    }

    pub fn facts(&self) -> ClientFacts {
        *lock(&self.lasting.facts)
    }

    pub fn log_level(&self) -> LogLevel {
        lock(&self.lasting.state).log_level.unwrap_or(DEFAULT_LOG_LEVEL)
    }

    pub fn subscribes_to(&self, uri: &str) -> bool {
        lock(&self.lasting.state).subscriptions.contains(uri)
    }

    pub fn is_connection(&self) -> bool {
        matches!(self.lasting.kind, Kind::Connection)
    }

    fn has_ended(&self) -> bool {
        lock(&self.lasting.state).ended
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    pub(super) fn new(ids: SessionIds, store: Arc<dyn Store>) -> Self {
        Sessions { ids, store, remembered: Mutex::default() }
    }

    /// `initialize`: over HTTP a new id is made, on a connection the facts are kept.
    pub fn open(&self, caller: &Caller, session: &Session, facts: ClientFacts) {
        if !session.is_connection() {
            // A second `initialize` in one batch opens nothing more.
            let _ = session.opened.set(self.ids.mint(caller, facts));
        }
        // What an id says of its session does not change: other replicas read it from there.
        if !matches!(session.lasting.kind, Kind::Stored { .. }) {
            *lock(&session.lasting.facts) = facts;
        }
    }

    /// The session that this text names, if it is this caller's and still stands.
    pub async fn find(&self, text: &str, caller: &Caller) -> Result<Session, SessionFault> {
        let open = self.ids.read(text, caller).map_err(|bad| match bad {
            BadSessionId::NotAnId => SessionFault::NotAnId,
            BadSessionId::Unknown => SessionFault::Unknown,
        })?;
        let place = (caller.tenant(), open.id);
        let known = lock(&self.remembered).get(&place).cloned();
        let session = match known {
            Some(session) if !self.store.replicas() => session,
            // What a client changed at one replica holds at the next one with its next request: letters may be slower.
            Some(session) => {
                *lock(&session.lasting.state) = self.state(place).await?;
                session
            }
            None => {
                let state = self.state(place).await?;
                let kind = Kind::Stored { tenant: caller.tenant(), open };
                let session = Session::new(kind, open.facts, state);
                let mut remembered = lock(&self.remembered);
                if remembered.len() >= REMEMBERED {
                    remembered.clear();
                }
                remembered.entry(place).or_insert(session).clone()
            }
        };
        match session.has_ended() {
            true => Err(SessionFault::Unknown),
            false => Ok(Session { opened: Arc::default(), ..session }),
        }
    }

    async fn state(&self, (tenant, id): (TenantId, Uuid)) -> Result<SessionState, SessionFault> {
        let state = self.store.session_state(tenant, id).await;
        state.map(Option::unwrap_or_default).map_err(SessionFault::Unavailable)
    }

    pub async fn set_log_level(&self, session: &Session, level: LogLevel) -> Result<()> {
        if let Some((tenant, open)) = stored(session)? {
            self.store.set_log_level(tenant, open.id, level, open.expires_at).await?;
        }
        lock(&session.lasting.state).log_level = Some(level);
        Ok(())
    }

    pub async fn subscribe(&self, session: &Session, uri: &str) -> Result<()> {
        match stored(session)? {
            Some((tenant, open)) => self.store.subscribe(tenant, open.id, uri, open.expires_at).await?,
            None if lock(&session.lasting.state).subscriptions.len() >= MAX_SUBSCRIPTIONS as usize => {
                return Err(Error::new(
                    Reason::Busy,
                    format!("A session has at most {MAX_SUBSCRIPTIONS} subscriptions."),
                )
                .hint("Unsubscribe from what you do not need any more."));
            }
            None => {}
        }
        lock(&session.lasting.state).subscriptions.insert(uri.to_owned());
        Ok(())
    }

    pub async fn unsubscribe(&self, session: &Session, uri: &str) -> Result<()> {
        if let Some((tenant, open)) = stored(session)? {
            self.store.unsubscribe(tenant, open.id, uri).await?;
        }
        lock(&session.lasting.state).subscriptions.remove(uri);
        Ok(())
    }

    pub async fn end(&self, session: &Session) -> Result<()> {
        if let Some((tenant, open)) = stored(session)? {
            self.store.end_session(tenant, open.id, open.expires_at).await?;
        }
        lock(&session.lasting.state).ended = true;
        Ok(())
    }

    /// Another replica changed it: what we have is read anew. Whoever holds it sees the change, too.
    pub async fn refresh(&self, tenant: TenantId, id: Uuid) {
        let known = lock(&self.remembered).get(&(tenant, id)).cloned();
        let Some(session) = known else { return };
        match self.store.session_state(tenant, id).await {
            Ok(state) => *lock(&session.lasting.state) = state.unwrap_or_default(),
            Err(_) => self.forget_all(),
        }
    }

    /// Changes may have been missed.
    pub fn forget_all(&self) {
        lock(&self.remembered).clear();
    }
}

/// `None` for a connection, whose state lives and dies with it.
fn stored(session: &Session) -> Result<Option<(TenantId, OpenSession)>> {
    match session.lasting.kind {
        Kind::Connection => Ok(None),
        Kind::Stored { tenant, open } => Ok(Some((tenant, open))),
        Kind::None => Err(Error::new(Reason::InvalidRequest, "This method needs a session.")
            .hint("Send initialize first, then pass the Mcp-Session-Id of its answer.")),
    }
}
