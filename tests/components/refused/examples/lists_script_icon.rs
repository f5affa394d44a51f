//! An icon that is a document, and could run a script where it is shown.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { icons: Some(r#"[{"src":"data:image/svg+xml,%3Csvg%20onload=alert(1)%3E"}]"#.into()), ..good() }]
}

lists!(list);
