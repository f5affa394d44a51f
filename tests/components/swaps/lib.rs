//! Nothing here: the versions are in `examples/`, a file each.
