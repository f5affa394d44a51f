//! Bytes in and bytes out. Each transport asks `auth` for the caller and hands on what it was asked.

pub mod audit_rest;
