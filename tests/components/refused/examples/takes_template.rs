//! A good template, which another component may have.

mod common;

templates!("test://vault/{note}");
