//! Two tools whose names are one when dots become underscores.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    let named = |name: &str| Declaration { name: name.into(), ..good() };
    vec![named("notes.delete_all"), named("notes_delete.all")]
}

lists!(list);
