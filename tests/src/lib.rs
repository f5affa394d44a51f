//! What the behaviour tests stand on.

pub mod postgres;
pub mod stores;
