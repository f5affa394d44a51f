//! `list-tools` never answers.

mod common;
use common::Declaration;

fn list() -> Vec<Declaration> {
    loop {
        std::hint::black_box(0);
    }
}

lists!(list);
