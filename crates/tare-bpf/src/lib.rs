//! Small BPF programs that the kernel runs for Tare. They are assembled here instruction by instruction and loaded with
//! bpf(2). Unless they are pinned, they disappear with the descriptors that hold them, however the process ends.
//!
//! Programs of a dozen instructions need neither a compiler nor object files, which the libraries for BPF are made for.

mod code;
mod kernel;
mod map;
mod program;

pub use code::{Function, Instruction, Register};
pub use map::{Map, Word};
pub use program::{Attached, Kind, Program, count_runs};
