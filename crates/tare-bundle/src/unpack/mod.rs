//! Unpacks untrusted archives.
//!
//! **Architecture invariant:** nothing in this crate writes into a tree except through [`rooted::Rooted`], which walks
//! every path component by component from the root and refuses to pass a symbolic link.

pub(crate) mod compression;
pub(crate) mod layer;
pub(crate) mod room;
pub(crate) mod rooted;
pub(crate) mod tarball;

#[cfg(test)]
mod hostile;
