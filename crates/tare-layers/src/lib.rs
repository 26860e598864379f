//! Deployment layers: one folder per layer. Every privileged operation of Tare lives in this crate.

pub mod agent;
pub mod container;
pub mod leftovers;
pub mod local;
pub mod network;
pub mod vm;

use tare_core::host::LayerRow;

/// Every layer there is. A new one is a folder and a row here, and gets the contract test unasked.
pub const LAYERS: &[LayerRow] = &[];
