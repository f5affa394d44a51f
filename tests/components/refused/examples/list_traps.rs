//! `list-tools` panics.

mod common;
use common::Declaration;

fn list() -> Vec<Declaration> {
    panic!("no list today")
}

lists!(list);
