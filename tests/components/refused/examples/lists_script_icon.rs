//! An icon that is neither https nor data.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { icons: Some(r#"[{"src":"javascript:alert(1)"}]"#.into()), ..good() }]
}

lists!(list);
