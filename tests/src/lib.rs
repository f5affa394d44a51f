//! The harness that the behaviour tests share.

pub mod otlp;
