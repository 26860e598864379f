//! The formats in which the store hands out a tree. Each is a pure function of the tree: the same bytes every time.

pub(crate) mod archive;
pub(crate) mod disk;
