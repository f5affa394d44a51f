//! The steps of the pipeline, one file each: what it takes, what it gives, the reasons it can refuse with.
//!
//! Each hands on a value that only it can make, so a call that skipped a check does not compile:
//! `resolve → Resolved`, `authorize → Permit`, `rate_limit → Admitted`, `validate_arguments → Checked`,
//! `confirm → Cleared` (or `Pending`, which does not run).

mod agreement;
mod authorize;
mod confirm;
mod rate_limit;
mod resolve;
mod validate_arguments;
mod validate_result;

pub use authorize::{Permit, authorize, check_scopes};
pub use confirm::{Cleared, Confirmation, ConfirmationPolicy, Gated, Pending, confirm};
pub use rate_limit::{Admitted, rate_limit, take};
pub use resolve::{Resolved, resolve};
pub use validate_arguments::{Checked, validate_arguments};
pub use validate_result::validate_result;
