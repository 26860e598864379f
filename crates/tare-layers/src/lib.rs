//! Deployment layers: one folder per layer. Every privileged operation of Tare lives in this crate.
//!
//! A host is where services run; a layer opens an inner host on an outer one. The host at the bottom is
//! [`local::LocalHost`]; the same code serves inside a guest, carried by [`agent`].

pub mod agent;
pub mod container;
mod environment;
pub mod leftovers;
pub mod local;
pub mod mock;
pub mod network;
pub mod vm;

use tare_core::host::LayerRow;

/// Every layer there is. A new one is a folder and a row here, and gets the contract test unasked.
pub const LAYERS: &[LayerRow] = &[container::ROW, vm::ROW, mock::ROW];
