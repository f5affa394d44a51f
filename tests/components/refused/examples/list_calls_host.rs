//! `list-tools` calls the host, which describing must not.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    let tenant = cyberos_plugin_sdk::call_context::get().tenant;
    vec![Declaration { title: tenant, ..good() }]
}

lists!(list);
