//! Bytes in and bytes out: stdio and HTTP. Each asks `auth` for the caller and hands messages to `protocol`.

pub mod audit_rest;
pub mod http;
pub mod stdio;
