//! Placeholder heading; see the crate's own documentation.
