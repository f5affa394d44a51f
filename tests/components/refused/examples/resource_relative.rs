//! A URI without a scheme.

mod common;

resources!("/etc/passwd");
