//! `audit-append` and `audit-read`, around the SDK's checks.

use cyberos_plugin_sdk::audit_append::{self, AuditError};
use cyberos_plugin_sdk::audit_read::{self, Query};
use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Append {
    kind: String,
    /// Passed on as it is, JSON or not.
    body: String,
    /// How often; once when absent.
    #[serde(default = "once")]
    times: u32,
}

#[derive(Serialize, JsonSchema)]
pub struct Appended {
    /// Sequence numbers, in the order of the appends.
    seqs: Vec<i64>,
    chain_anchor: Option<String>,
    prev_anchor: Option<String>,
    #[serde(flatten)]
    failed: Failed,
}

/// The error's name in the WIT and what it says; both null when all went well.
#[derive(Default, Serialize, JsonSchema)]
pub struct Failed {
    error: Option<&'static str>,
    says: Option<String>,
}

impl From<AuditError> for Failed {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::Invalid(text) => Failed { error: Some("invalid"), says: Some(text) },
            AuditError::NotCleared => Failed { error: Some("not-cleared"), says: None },
            AuditError::Unavailable(text) => Failed { error: Some("unavailable"), says: Some(text) },
        }
    }
}

fn append(arguments: &Append) -> Appended {
    let mut appended = Appended { seqs: vec![], chain_anchor: None, prev_anchor: None, failed: Failed::default() };
    for _ in 0..arguments.times {
        match audit_append::append(&arguments.kind, &arguments.body) {
            Ok(at) => {
                appended.seqs.push(at.seq);
                appended.chain_anchor = Some(at.chain_anchor);
                appended.prev_anchor = Some(at.prev_anchor);
            }
            Err(error) => {
                appended.failed = error.into();
                break;
            }
        }
    }
    appended
}

pub struct AppendsAudit;

impl Tool for AppendsAudit {
    const NAME: &'static str = "test.appends_audit";
    const TITLE: &'static str = "appends_audit";
    const DESCRIPTION: &'static str = "Test guest: appends to the audit log without having asked for a confirmation.";
    const ANNOTATIONS: Annotations = WRITE;
    type Arguments = Append;
    type Output = Appended;

    fn call(arguments: Append) -> Result<Appended, ToolError> {
        Ok(append(&arguments))
    }
}

pub struct AppendsAuditConfirmed;

impl Tool for AppendsAuditConfirmed {
    const NAME: &'static str = "test.appends_audit_confirmed";
    const TITLE: &'static str = "appends_audit_confirmed";
    const DESCRIPTION: &'static str =
        "Test guest: appends to the audit log, and is declared destructive as it must be.";
    const ANNOTATIONS: Annotations = DESTRUCTIVE;
    type Arguments = Append;
    type Output = Appended;

    fn call(arguments: Append) -> Result<Appended, ToolError> {
        Ok(append(&arguments))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    actor: Option<String>,
    kind: Option<String>,
    since_seq: Option<i64>,
    /// Not checked here: the host must.
    limit: u32,
}

#[derive(Serialize, JsonSchema)]
pub struct Page {
    /// As the host gave it.
    page: Option<Value>,
    #[serde(flatten)]
    failed: Failed,
}

pub struct ReadsAudit;

impl Tool for ReadsAudit {
    const NAME: &'static str = "test.reads_audit";
    const TITLE: &'static str = "reads_audit";
    const DESCRIPTION: &'static str = "Test guest: reads the audit log with whatever limit it is told.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = Read;
    type Output = Page;

    fn call(Read { actor, kind, since_seq, limit }: Read) -> Result<Page, ToolError> {
        Ok(match audit_read::read(&Query { actor, kind, since_seq, limit }) {
            Ok(text) => Page { page: cyberos_plugin_sdk::serde_json::from_str(&text).ok(), failed: Failed::default() },
            Err(error) => Page { page: None, failed: error.into() },
        })
    }
}

fn once() -> u32 {
    1
}
