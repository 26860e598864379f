//! Compose files as people write them, and what is made of them.

mod lab;
mod mistakes;
mod stacks;
