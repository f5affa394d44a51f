//! The verified caller. Its fields are private and its constructors stay inside `auth`: holding one is the proof
//! that identity was checked.

use jiff::Timestamp;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::model::TenantId;
use crate::store::TaskOwner;

/// Cheap to clone: every request carries one.
#[derive(Clone)]
pub struct Caller(Arc<Inner>, Option<Arc<SecretString>>);

struct Inner {
    tenant: TenantId,
    subject: String,
    /// `None` for the local principal, which holds every scope.
    scopes: Option<BTreeSet<String>>,
    identity: Identity,
}

/// How the caller proved who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The user who started the process (stdio), or `--auth none` on loopback.
    Local,
    /// An access token, valid until then (skew included).
    Token { expires_at: Timestamp },
    /// The caller of a task that outlived its request; its token was verified when the task was created.
    Task,
    /// Nobody yet: a client that asks what it has to do to be let in. Holds no scope and owns nothing.
    Anonymous,
}

impl Caller {
    /// The single user of a local bridge.
    pub fn local() -> Self {
        Caller(
            Arc::new(Inner {
                tenant: TenantId::LOCAL,
                subject: "local".into(),
                scopes: None,
                identity: Identity::Local,
            }),
            None,
        )
    }

    pub(super) fn from_token(
        tenant: TenantId,
        subject: String,
        scopes: BTreeSet<String>,
        expires_at: Timestamp,
    ) -> Self {
        Caller(
            Arc::new(Inner { tenant, subject, scopes: Some(scopes), identity: Identity::Token { expires_at } }),
            None,
        )
    }

    /// A client without a token, for `initialize` alone.
    pub fn anonymous() -> Self {
        let (tenant, scopes) = (TenantId(uuid::Uuid::nil()), Some(BTreeSet::new()));
        Caller(Arc::new(Inner { tenant, subject: "anonymous".into(), scopes, identity: Identity::Anonymous }), None)
    }

    /// Also carry the token itself, for the memory service, which checks it anew.
    pub(super) fn with_bearer(self, token: &str) -> Self {
        Caller(self.0, Some(Arc::new(SecretString::from(token))))
    }

    /// The caller of a stored task, rebuilt from the row that the bridge itself wrote.
    pub fn of_task(owner: &TaskOwner, scopes: Option<BTreeSet<String>>) -> Self {
        Caller(
            Arc::new(Inner { tenant: owner.tenant, subject: owner.subject.clone(), scopes, identity: Identity::Task }),
            None,
        )
    }

    pub fn tenant(&self) -> TenantId {
        self.0.tenant
    }
    pub fn subject(&self) -> &str {
        &self.0.subject
    }
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }
    /// The verified token, for a service of ours that checks it itself; never for plugins or other upstreams.
    pub fn bearer(&self) -> Option<Arc<SecretString>> {
        self.1.clone()
    }
    pub fn is_anonymous(&self) -> bool {
        self.0.identity == Identity::Anonymous
    }
    pub fn is_local(&self) -> bool {
        self.0.scopes.is_none()
    }
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.as_ref().is_none_or(|held| held.contains(scope))
    }
    /// `None`: all of them.
    pub fn scopes(&self) -> Option<&BTreeSet<String>> {
        self.0.scopes.as_ref()
    }
    pub fn task_owner(&self) -> TaskOwner {
        TaskOwner { tenant: self.tenant(), subject: self.subject().to_owned() }
    }
    /// First 16 hex digits of SHA-256 over tenant and subject: enough to tell callers apart in the audit log
    /// without naming them.
    pub fn subject_hash16(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.tenant().0.as_bytes());
        hash.update([0x1f]);
        hash.update(self.subject().as_bytes());
        hex::encode(&hash.finalize()[..8])
    }
}

impl fmt::Debug for Caller {
    /// For logs: tells callers apart without naming them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({}/{}, {:?})", self.tenant(), self.subject_hash16(), self.0.identity)
    }
}
