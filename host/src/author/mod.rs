//! What plugin authors use: a plugin is looked at, and its cases are run, as a host would, without being served.
//!
//! Stands beside `transport`, above `protocol` and `broker`. It knows no command line and no terminal, and it grants
//! nothing that a file does not name.

mod backdrop;
pub mod case;
pub mod check;
mod judge;
pub mod run;
mod sample;
mod script;
mod stage;
mod stand_in;

pub use stage::{Failure, Stage};
