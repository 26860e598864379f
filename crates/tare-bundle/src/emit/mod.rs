//! The forms in which a tree leaves the store. Each is a pure function of the tree: the same bytes every time.

pub(crate) mod archive;
pub(crate) mod disk;
