//! Deployment layers: one folder per layer. Every privileged operation of Tare lives in this crate.

pub mod agent;
pub mod container;
pub mod local;
pub mod network;
pub mod vm;
