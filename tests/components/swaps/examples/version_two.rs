//! Version two: one tool.

mod common;

version!("two");
export_tools!(Version);
