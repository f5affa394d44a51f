//! Sessions: what a client said at `initialize` and asked for since.
//!
//! A session over HTTP is its id, which says everything that was fixed at its start; only what was changed later (its end,
//! its log level, its subscriptions) is in the store. A bridge that has it to itself reads that once, replicas with every
//! request. Over stdio the connection is the session. Source: design section 6, sessions; MCP 2025-11-25, session management.

use jiff::Timestamp;
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
    /// The session that this request opened; not shared with other requests.
    opened: Arc<OnceLock<OpenSession>>,
}

/// What all requests of a session share.
struct Lasting {
    kind: Kind,
    facts: Mutex<ClientFacts>,
    kept: Mutex<Kept>,
}

/// What we know of the store's word on a session.
#[derive(Default)]
struct Kept {
    state: SessionState,
    /// It was read since the last change that we heard of.
    fresh: bool,
    /// Changes that we heard of, so that what was read before one is not taken for the newest.
    heard: u64,
}

enum Kind {
    /// A connection that lasts.
    Connection,
    /// An id that came with a request.
    Stored { tenant: TenantId, place: Uuid, open: OpenSession },
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
    fn new(kind: Kind, facts: ClientFacts) -> Session {
        let lasting = Lasting { kind, facts: Mutex::new(facts), kept: Mutex::default() };
        Session { lasting: Arc::new(lasting), opened: Arc::default() }
    }

    /// Of a connection that lasts as long as its client.
    pub fn of_connection() -> Session {
        Session::new(Kind::Connection, ClientFacts::default())
    }

    /// Of a request that names no session.
    pub fn none() -> Session {
        Session::new(Kind::None, ClientFacts::default())
    }

    pub fn id(&self) -> Option<Uuid> {
        match &self.lasting.kind {
            Kind::Stored { open, .. } => Some(open.id),
            Kind::Connection | Kind::None => None,
        }
    }

    /// Under which the store has what it changed.
    pub(super) fn place(&self) -> Option<Uuid> {
        match &self.lasting.kind {
            Kind::Stored { place, .. } => Some(*place),
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
        lock(&self.lasting.kept).state.log_level.unwrap_or(DEFAULT_LOG_LEVEL)
    }

    pub fn subscribes_to(&self, uri: &str) -> bool {
        lock(&self.lasting.kept).state.subscriptions.contains(uri)
    }

    pub fn is_connection(&self) -> bool {
        matches!(self.lasting.kind, Kind::Connection)
    }

    fn has_ended(&self) -> bool {
        lock(&self.lasting.kept).state.ended
    }

    fn change(&self, apply: impl FnOnce(&mut SessionState)) {
        let mut kept = lock(&self.lasting.kept);
        kept.heard += 1;
        apply(&mut kept.state);
    }

    /// What we know may be out of date.
    fn doubt(&self) {
        let mut kept = lock(&self.lasting.kept);
        kept.heard += 1;
        kept.fresh = false;
    }

    /// Somebody beside `remembered` has it: a listener, or a request that is being answered.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.lasting) > 1
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
        // What an older session's client said of itself is in its id, and others use it, too.
        if session.id().is_none() {
            *lock(&session.lasting.facts) = facts;
        }
    }

    /// The session that this text names, if it is this caller's and still stands.
    pub async fn find(&self, text: &str, caller: &Caller) -> Result<Session, SessionFault> {
        let open = self.ids.read(text, caller).map_err(|bad| match bad {
            BadSessionId::NotAnId => SessionFault::NotAnId,
            BadSessionId::Unknown => SessionFault::Unknown,
        })?;
        let (tenant, place) = (caller.tenant(), self.ids.place(&open, caller));
        let session = {
            let mut remembered = lock(&self.remembered);
            if remembered.len() >= REMEMBERED && !remembered.contains_key(&(tenant, place)) {
                // Not those in use: a change has to reach whoever holds them.
                remembered.retain(|_, session| session.is_used());
            }
            let new = || Session::new(Kind::Stored { tenant, place, open }, open.facts);
            let Session { lasting, .. } = remembered.entry((tenant, place)).or_insert_with(new);
            Session { lasting: lasting.clone(), opened: Arc::default() }
        };
        // What a client changed at one replica holds at the next one with its next request: letters may be slower.
        let anew = self.store.replicas();
        self.read(&session, tenant, place, anew).await.map_err(SessionFault::Unavailable)?;
        match session.has_ended() {
            true => Err(SessionFault::Unknown),
            false => Ok(session),
        }
    }

    /// Read what the store says, unless we know and need not ask anew. What changes meanwhile is not overwritten with
    /// what was read before.
    async fn read(&self, session: &Session, tenant: TenantId, place: Uuid, mut anew: bool) -> Result<()> {
        loop {
            let heard = {
                let kept = lock(&session.lasting.kept);
                if kept.fresh && !anew {
                    return Ok(());
                }
                kept.heard
            };
            let state = self.store.session_state(tenant, place).await?.unwrap_or_default();
            anew = false;
            let mut kept = lock(&session.lasting.kept);
            if kept.heard == heard {
                (kept.state, kept.fresh) = (state, true);
            }
        }
    }

    pub async fn set_log_level(&self, session: &Session, level: LogLevel) -> Result<()> {
        if let Some((tenant, place, ends)) = stored(session)? {
            self.store.set_log_level(tenant, place, level, ends).await?;
        }
        session.change(|state| state.log_level = Some(level));
        Ok(())
    }

    pub async fn subscribe(&self, session: &Session, uri: &str) -> Result<()> {
        match stored(session)? {
            Some((tenant, place, ends)) => self.store.subscribe(tenant, place, uri, ends).await?,
            None if lock(&session.lasting.kept).state.subscriptions.len() >= MAX_SUBSCRIPTIONS as usize => {
                return Err(Error::new(
                    Reason::Busy,
                    format!("A session has at most {MAX_SUBSCRIPTIONS} subscriptions."),
                )
                .hint("Unsubscribe from what you do not need any more."));
            }
            None => {}
        }
        session.change(|state| state.subscriptions.extend([uri.to_owned()]));
        Ok(())
    }

    pub async fn unsubscribe(&self, session: &Session, uri: &str) -> Result<()> {
        if let Some((tenant, place, _)) = stored(session)? {
            self.store.unsubscribe(tenant, place, uri).await?;
        }
        session.change(|state| state.subscriptions.retain(|held| held != uri));
        Ok(())
    }

    pub async fn end(&self, session: &Session) -> Result<()> {
        if let Some((tenant, place, ends)) = stored(session)? {
            self.store.end_session(tenant, place, ends).await?;
        }
        session.change(|state| state.ended = true);
        Ok(())
    }

    /// Another replica changed it: what we have is read anew. Whoever holds it sees the change, too.
    pub async fn refresh(&self, tenant: TenantId, place: Uuid) {
        let known = lock(&self.remembered).get(&(tenant, place)).cloned();
        let Some(session) = known else { return };
        session.doubt();
        // Else the next request that names it reads it.
        if let Err(error) = self.read(&session, tenant, place, false).await {
            tracing::warn!(?error, "what a session changed could not be read");
        }
    }

    /// Changes may have been missed: what is in use is read anew, the rest when it is asked for.
    pub async fn refresh_all(&self) {
        let used: Vec<_> = {
            let mut remembered = lock(&self.remembered);
            remembered.retain(|_, session| session.is_used());
            remembered.values().for_each(Session::doubt);
            remembered.keys().copied().collect()
        };
        for (tenant, place) in used {
            self.refresh(tenant, place).await;
        }
    }
}

/// `None` for a connection, whose state lives and dies with it.
fn stored(session: &Session) -> Result<Option<(TenantId, Uuid, Timestamp)>> {
    match session.lasting.kind {
        Kind::Connection => Ok(None),
        Kind::Stored { tenant, place, open } => Ok(Some((tenant, place, open.expires_at))),
        Kind::None => Err(Error::new(Reason::InvalidRequest, "This method needs a session.")
            .hint("Send initialize first, then pass the Mcp-Session-Id of its answer.")),
    }
}
