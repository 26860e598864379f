//! Small programs that the kernel runs for Tare: written here instruction by instruction, handed over by bpf(2), and
//! gone with the descriptors that hold them, however the process ends, unless they are given a name.
//!
//! A program of a dozen instructions needs neither a compiler of its own nor a format of object files, which is what
//! the libraries for BPF bring along.

mod code;
mod kernel;
mod map;
mod program;

pub use code::{Function, Instruction, Register};
pub use map::{Map, Word};
pub use program::{Attached, Kind, Program, count_runs};
