//! Step 3: has this caller, its tenant, and its tenant with this tool, a call left. After scopes, so that a call which
//! could never run uses up nobody's allowance; before anything is parsed or asked upstream, so that a flood costs next
//! to nothing.

use std::time::Instant;

use super::Permit;
use crate::auth::Caller;
use crate::broker::limits::{Limit, Limits};
use crate::error::{Error, Reason, Result};

/// A permit that was paid for.
pub struct Admitted {
    pub permit: Permit,
    _only_rate_limit_makes_this: (),
}

/// Refuses with `rate_limited` and `retry_after_ms`; `limit` says which: `user`, `tenant`, `tool` or `capacity`.
pub fn rate_limit(limits: &Limits, permit: Permit, now: Instant) -> Result<Admitted> {
    take(limits, &permit.caller, permit.resolved.entry.tool.name.as_str(), now)?;
    Ok(Admitted { permit, _only_rate_limit_makes_this: () })
}

/// The same for what is no tool.
pub fn take(limits: &Limits, caller: &Caller, name: &str, now: Instant) -> Result<()> {
    limits.take(caller, name, now).map_err(|refused| {
        let public = match refused.limit {
            Limit::User => "You called too often in a short time.".to_owned(),
            Limit::Tenant => "Your tenant called too often in a short time.".to_owned(),
            Limit::Tool => format!("Your tenant called {name} too often in a short time."),
            Limit::Capacity => "This server serves as many callers as it can.".to_owned(),
        };
        Error::new(Reason::RateLimited, public)
            .hint(format!("Wait {} ms (retry_after_ms), then call again.", refused.retry_after_ms))
            .with("retry_after_ms", refused.retry_after_ms)
            .with("limit", refused.limit.as_str())
    })
}
