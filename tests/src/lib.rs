//! What the behaviour tests stand on.

pub mod otlp;
pub mod postgres;
pub mod stores;
