//! What others make: bundles, images, kernels and packages, each really made.

mod images;
mod kernel;
mod packages;
mod store;
