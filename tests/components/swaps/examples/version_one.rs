//! Version one: one tool.

mod common;

version!("one");
export_tools!(Version);
