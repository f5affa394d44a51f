//! Tools that use each import which an operator grants, and say what came of it: an answer, or the name of the error.
//!
//! It loads only when everything is granted (`upstreams`, `config`, `cuo`, `audit_append`, `audit_read`); what a call
//! may then reach is up to the grants' details.

mod audit;
mod cuo;
mod settings;
mod web;

cyberos_plugin_sdk::export_tools!(
    web::Fetches,
    web::BlocksInHostCall,
    audit::AppendsAudit,
    audit::AppendsAuditConfirmed,
    audit::ReadsAudit,
    cuo::AsksCuo,
    settings::ReadsConfig,
);
