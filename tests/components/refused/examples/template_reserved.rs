//! A template beyond level 1 of RFC 6570: one variable would stand for any path.

mod common;

templates!("notes://{+path}");
