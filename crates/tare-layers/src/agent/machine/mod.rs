//! The agent on another machine: `tare agent` with a pipe or a socket as its standard input.
//!
//! It speaks the lines of the other agents. Before a host is opened it answers questions of its own: what the machine
//! is, what its clock says, and how a verb of this program ends there. It ends when its pipes are closed, and ends what
//! it has started before that.

mod far;
mod near;
mod program;
mod question;

pub use far::{is_piped, serve_machine};
pub use near::ClockReading;
pub use question::{MachineFacts, VerbEnd};

pub(crate) use program::{PROGRAM, digest_of};
