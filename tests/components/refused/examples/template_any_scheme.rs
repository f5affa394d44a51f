//! A template that would answer for every scheme.

mod common;

templates!("{scheme}://x");
