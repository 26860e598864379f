//! What the tests of several crates stand on: peers, files, samples, and readings of what was told. A dependency of
//! tests alone.
//!
//! It knows `tare-core` and no other crate of Tare's. It panics where a test is to fail.

pub mod files;
pub mod histogram;
pub mod load;
pub mod needs;
pub mod peer;
pub mod sample;
pub mod tls;
