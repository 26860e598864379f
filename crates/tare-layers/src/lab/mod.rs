//! Machines of a lab: how each kind reaches one, and what is the same for all kinds.
//!
//! A kind is a folder and an entry of [`KINDS`]. It turns words into a command of this machine that runs them there,
//! and knows what it means when that command fails. Everything else is done with such commands: the program is brought
//! there once ([`Program`]), and its agent is started with pipes ([`reach`]).

mod bringing;
mod command;
mod line;
mod reaching;
mod ssh;

pub use bringing::{Program, program_folder, program_path};
pub use reaching::{Reached, Unreached, reach};

use tare_core::lab::MachineKinds;

/// The kinds of machines of this build.
pub const KINDS: MachineKinds =
    MachineKinds { known: &[&ssh::Ssh, &command::ByCommand], planned: &["slurm", "kubernetes"] };
