//! A name that MCP allows and the operator did not; with `any_tool_name` it loads.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { name: "deleteNote".into(), ..good() }]
}

lists!(list);
