//! What others make: bundles, images, kernels and packages, each really made.

mod engine;
mod images;
mod kernel;
mod memory;
mod packages;
mod says;
mod store;
