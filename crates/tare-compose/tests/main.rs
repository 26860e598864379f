//! Compose files as people write them, and what is made of them.

mod builds;
mod lab;
mod mistakes;
mod names;
mod stacks;
mod strangers;
