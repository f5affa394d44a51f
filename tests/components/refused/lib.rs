//! Nothing here: the components are in `examples/`, a file each.
