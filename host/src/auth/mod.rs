//! Who is calling. The only module that makes a [`Caller`], from a verified token or as the local principal.

mod caller;

pub use caller::{Caller, Identity};
