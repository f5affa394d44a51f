//! Decisions: may this caller make this call, now, with these arguments; and what is recorded of it.
//!
//! Knows no transport, no JSON-RPC and no wasmtime. `pipeline` is the one page that shows the order of the
//! steps of a tool call, `offers` the shorter one for prompts, resources and completions.

mod audit;
mod catalog;
mod limits;
mod observe;
mod offers;
mod pipeline;
// Open to the fuzz targets alone.
#[doc(hidden)]
pub mod schema;
mod steps;
mod tasks;

pub use audit::AuditLog;
pub use catalog::{Catalog, Changed, Checked, Entry, Found, Kinds, Lists, Offered};
pub use limits::Limits;
pub use observe::Observer;
pub use pipeline::{Broker, BrokerParts, Reply};
pub use steps::ConfirmationPolicy;
pub use tasks::{Detach, Recovered, TaskLauncher, TaskSettings, Tasks, asked_of};
