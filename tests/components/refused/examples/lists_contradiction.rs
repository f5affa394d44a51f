//! A tool that claims to be read-only and destructive.

mod common;
use common::{Declaration, good};
use cyberos_plugin_sdk::{Annotations, READ_ONLY};

fn list() -> Vec<Declaration> {
    vec![Declaration { annotations: Annotations { destructive: true, ..READ_ONLY }, ..good() }]
}

lists!(list);
