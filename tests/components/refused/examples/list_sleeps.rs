//! `list-tools` waits for ten seconds without burning fuel.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    std::thread::sleep(std::time::Duration::from_secs(10));
    vec![good()]
}

lists!(list);
