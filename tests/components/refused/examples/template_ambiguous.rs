//! A template whose variables cannot be told apart.

mod common;

templates!("notes://{a}{b}");
