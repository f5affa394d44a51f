//! The set of plugins that serve: which files they are, what is demanded of them, and what an operator may change.
//!
//! It knows grants, files and the sandbox's plugins, and nothing of callers. Nothing below `cli` and `app` knows it: what
//! changes grants is out of every tool's reach.

pub mod approvals;
pub mod candidate;
pub mod edit;
pub mod interface;
mod lock;
pub mod provenance;
pub mod signatures;
pub mod surface;

pub use approvals::{Approvals, Compared};
pub use candidate::{Blocked, BlockedKind, Candidate};
pub use provenance::Provenance;
pub use surface::Surface;
